// A vector indexed by a strong id (strong_id.h), so that, for example, the number of a segment cannot index stages.
//
//   IdVector<StageId, StageProgram> stages;
//   StageId made = stages.Add(stage);
//   for (StageId id : stages.ids()) Use(id, stages[id]);
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <utility>
#include <vector>

#include "base/strong_id.h"

namespace heddle {

namespace internal {
[[noreturn, gnu::cold, gnu::noinline]] inline void InvalidIdFailed(std::int32_t value) {
  HEDDLE_CHECK(false, "id {}", value);
  std::abort();
}
}  // namespace internal

// A range of consecutive ids, ascending or descending.
template <class Id>
class IdRange {
 public:
  struct Iterator {
    std::int32_t at = 0, step = 1;
    Id operator*() const { return Id{at}; }
    Iterator& operator++() {
      at += step;
      return *this;
    }
    bool operator==(const Iterator&) const = default;
  };

  IdRange(std::int32_t first, std::int32_t end, std::int32_t step)
      : begin_{first, step}, end_{end, step} {}
  Iterator begin() const { return begin_; }
  Iterator end() const { return end_; }

 private:
  Iterator begin_, end_;
};

template <class Id, class T>
class IdVector {
 public:
  using Items = std::vector<T>;
  using value_type = T;
  using iterator = typename Items::iterator;
  using const_iterator = typename Items::const_iterator;
  using reference = typename Items::reference;
  using const_reference = typename Items::const_reference;

  IdVector() = default;
  IdVector(std::initializer_list<T> items) : items_(items) {}
  explicit IdVector(std::size_t count, const T& value = T()) : items_(count, value) {}
  explicit IdVector(Items items) : items_(std::move(items)) {}

  // The id must be one of ids().
  reference operator[](Id id) { return items_[IndexOf(id)]; }
  const_reference operator[](Id id) const { return items_[IndexOf(id)]; }

  bool Has(Id id) const { return id.valid() && id.index() < items_.size(); }
  // All ids; all ids from the last to the first; the ids from `first` on.
  IdRange<Id> ids() const { return {0, end_id().value, 1}; }
  IdRange<Id> ids_downwards() const { return {end_id().value - 1, -1, -1}; }
  IdRange<Id> ids_from(Id first) const { return {first.value, end_id().value, 1}; }
  // The id that the next added element will get.
  Id end_id() const { return Id::FromIndex(items_.size()); }
  // The id of the last element; invalid where the vector is empty.
  Id last_id() const { return Id{end_id().value - 1}; }

  Id Add(T item) {
    Id id = end_id();
    items_.push_back(std::move(item));
    return id;
  }
  void pop_back() { items_.pop_back(); }
  void push_back(T item) { items_.push_back(std::move(item)); }
  template <class... Args>
  reference emplace_back(Args&&... args) {
    return items_.emplace_back(std::forward<Args>(args)...);
  }

  std::size_t size() const { return items_.size(); }
  bool empty() const { return items_.empty(); }
  iterator begin() { return items_.begin(); }
  iterator end() { return items_.end(); }
  const_iterator begin() const { return items_.begin(); }
  const_iterator end() const { return items_.end(); }
  reference front() { return items_.front(); }
  const_reference front() const { return items_.front(); }
  reference back() { return items_.back(); }
  const_reference back() const { return items_.back(); }
  void clear() { items_.clear(); }
  void reserve(std::size_t count) { items_.reserve(count); }
  void resize(std::size_t count) { items_.resize(count); }
  void assign(std::size_t count, const T& value) { items_.assign(count, value); }

  friend bool operator==(const IdVector&, const IdVector&) = default;

 private:
  // Hot loops index through this function: only the failing case calls a function.
  static std::size_t IndexOf(Id id) {
    if (id.value < 0) [[unlikely]]
      internal::InvalidIdFailed(id.value);
    return static_cast<std::size_t>(id.value);
  }

  Items items_;
};

}  // namespace heddle
