// Small language models and files for the tests of training data.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "graph/text.h"
#include "ops/op.h"

namespace heddle {

inline Graph ModelFromText(const std::string& body) {
  Graph graph = FromText("heddle 1\nmodel \"lm\"\n" + body + "output %loss\n", "lm.heddle");
  CheckTypes(graph);
  return graph;
}

// A model of `batch` rows of 4 tokens. `middle` computes the labels %y from %labels and the logits %z from %logits,
// `rows` of them per sample.
inline Graph LanguageModel(int64_t batch, int64_t vocabulary, int64_t rows,
                           const std::string& middle, const std::string& dtype = "i64") {
  auto b = std::to_string(batch), v = std::to_string(vocabulary), r = std::to_string(rows);
  auto n = std::to_string(batch * rows);
  return ModelFromText("input %input_ids: " + dtype + "[" + b + ",4]\ninput %labels: " + dtype +
                       "[" + b + ",4]\nparam %wte: f32[" + v + ",8]\n%e: f32[" + b +
                       ",4,8] = Gather(%wte, %input_ids) {axis=0}\n%logits: f32[" + b + ",4," + v +
                       "] = Linear(%e, %wte) {transpose_weight=1}\n" + middle + "%flat: f32[" + n +
                       "," + v + "] = Reshape(%z) {shape=[" + n + ", " + v + "]}\n%l: " + dtype +
                       "[" + n + "] = Reshape(%y) {shape=[" + n +
                       "]}\n%n: f32[] = LabelCount(%l) {ignore_index=-100}\n%loss: f32[] = "
                       "CrossEntropy(%flat, %l, %n) {ignore_index=-100, reduction=\"mean\"}\n");
}

inline Graph PlainModel(int64_t batch = 2, int64_t vocabulary = 256,
                        const std::string& dtype = "i64") {
  auto b = std::to_string(batch), v = std::to_string(vocabulary);
  return LanguageModel(batch, vocabulary, 4,
                       "%y: " + dtype + "[" + b + ",4] = Identity(%labels)\n%z: f32[" + b + ",4," +
                           v + "] = Identity(%logits)\n",
                       dtype);
}

class DataTest : public testing::Test {
 protected:
  DataTest() {
    std::string pattern = (std::filesystem::temp_directory_path() / "heddle_data_XXXXXX").string();
    folder_ = mkdtemp(pattern.data());
  }
  ~DataTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& bytes) const {
    WriteFileAtomically(Path(name), bytes);
    return Path(name);
  }

  // The error of an action, with the folder left out.
  template <class Action>
  std::string ErrorOf(Action action) const {
    try {
      action();
    } catch (const InputError& error) {
      std::string text = error.what();
      for (size_t at; (at = text.find(folder_ + "/")) != text.npos;) {
        text.erase(at, folder_.size() + 1);
      }
      return text;
    }
    return "(no error)";
  }

  std::string folder_;
};

}  // namespace heddle
