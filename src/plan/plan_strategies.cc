#include "plan/plan_strategies.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>

#include "base/error.h"
#include "base/integers.h"
#include "base/json_fields.h"
#include "base/nearest.h"
#include "plan/strategy_text.h"

namespace heddle {
namespace {

constexpr std::string_view kChain = "chain ";
constexpr std::string_view kAsStage = "as stage ";

std::string KeyOf(const Model& model, size_t n) {
  std::string key;
  for (char c : model.graph.value(model.graph.nodes[n].results.front()).name) {
    if (c >= ' ' && c <= '~' && c != '\\') {
      key += c;
    } else {
      key += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
    }
  }
  return key;
}

std::string ChainKey(int chain) { return fmt::format("{}{}", kChain, chain); }

// The nodes of a stage, side nodes included, and which of them the file lists under a chain.
struct StageNodes {
  std::vector<bool> ours;
  std::vector<int> chain;                  // per node of the graph; -1: by its name
  std::map<int, std::vector<int>> copies;  // by chain, those in the stage

  StageNodes(const Model& model, const Stage& stage)
      : ours(model.graph.nodes.size(), false), chain(model.graph.nodes.size(), -1) {
    std::vector<NodeId> nodes = NodesOf(model, stage);
    for (NodeId id : nodes) ours[id.index()] = true;
    for (NodeId id : SideNodesOf(model, nodes)) ours[id.index()] = true;
    for (int b = stage.first_block; b < stage.last_block; ++b) {
      const ModelBlock& block = model.blocks[ToSize(b)];
      if (block.chain < 0) continue;
      copies[block.chain].push_back(block.copy);
      for (NodeId id : CopyOf(model, block.chain, block.copy)) {
        if (ours[id.index()]) chain[id.index()] = block.chain;
      }
    }
  }

  static const std::vector<NodeId>& CopyOf(const Model& model, int chain, int copy) {
    return model.folding.chains[ToSize(chain)].copies[ToSize(copy)];
  }
};

std::string NodeText(const Model& model, const Stage& stage, size_t n) {
  std::string choices = ToText(stage.mesh, model.rules[n], stage.strategies[n]);
  return model.graph.nodes[n].op + (choices.empty() ? "" : " " + choices);
}

// The strategy that the first copy with this node has for it.
Json ChainTexts(const Model& model, const Stage& stage, const StageNodes& nodes, int chain) {
  Json texts = Json::array();
  const std::vector<int>& copies = nodes.copies.at(chain);
  for (size_t j = 0; j < StageNodes::CopyOf(model, chain, copies[0]).size(); ++j) {
    std::string text = model.graph.node(StageNodes::CopyOf(model, chain, copies[0])[j]).op;
    for (int copy : copies) {
      size_t n = StageNodes::CopyOf(model, chain, copy)[j].index();
      if (!nodes.ours[n]) continue;
      text = NodeText(model, stage, n);
      break;
    }
    texts.push_back(text);
  }
  return texts;
}

// Reads the strategies of one stage.
class StrategyReader {
 public:
  StrategyReader(const Model& model, const Json& stages, std::string_view file, Stage& stage)
      : model_(model), stages_(stages), file_(file), stage_(stage), nodes_(model, stage) {}

  void Run(const Json& json, const std::string& path) {
    JsonFields fields(json, file_, path, {});
    stage_.strategies.assign(model_.graph.nodes.size(), {});
    given_.assign(model_.graph.nodes.size(), false);
    for (const auto& [key, value] : json.items()) {
      if (key != "nodes" && key != "exceptions") ReadChain(key, value, fields.PathOf(key));
    }
    for (std::string_view key : {"nodes", "exceptions"}) {
      if (fields.Has(key)) ReadNodes(fields.At(key), fields.PathOf(key), key == "exceptions");
    }
    for (size_t n = 0; n < given_.size(); ++n) {
      if (nodes_.ours[n] && !given_[n]) {
        std::string where = nodes_.chain[n] < 0 ? "nodes" : ChainKey(nodes_.chain[n]);
        ThrowInput("{}: {}: no strategy for {} '{}': add it to {}", file_, path,
                   model_.graph.nodes[n].op, KeyOf(model_, n), where);
      }
    }
  }

 private:
  int ChainNamed(const std::string& key, const std::string& path) const {
    std::vector<std::string> names;
    for (const auto& [chain, copies] : nodes_.copies) {
      if (ChainKey(chain) == key) return chain;
      names.push_back(ChainKey(chain));
    }
    names.insert(names.end(), {"nodes", "exceptions"});
    std::vector<std::string_view> views(names.begin(), names.end());
    ThrowInput("{}: {}: no such chain in this stage: {}", file_, path, DidYouMean(key, views));
  }

  // The list itself, or that of an earlier stage.
  const Json& ListOf(const std::string& key, const Json& value, const std::string& path) const {
    if (value.is_array()) return value;
    if (!value.is_string() || !value.get_ref<const std::string&>().starts_with(kAsStage)) {
      RefuseJson(file_, path, value, "expected a list of strategies, or \"as stage N\"");
    }
    std::string_view digits =
        std::string_view(value.get_ref<const std::string&>()).substr(kAsStage.size());
    size_t stage = 0;
    const char* end = digits.data() + digits.size();
    bool number = !digits.empty() && std::from_chars(digits.data(), end, stage).ptr == end;
    const Json* list =
        number && stage < stages_.size() ? Find(stages_[stage], "strategies") : nullptr;
    if (list != nullptr) list = Find(*list, key);
    if (list == nullptr || !list->is_array()) {
      RefuseJson(file_, path, value,
                 "expected a stage that lists the strategies of this chain itself");
    }
    return *list;
  }

  static const Json* Find(const Json& json, std::string_view key) {
    auto found = json.is_object() ? json.find(key) : json.end();
    return json.is_object() && found != json.end() ? &*found : nullptr;
  }

  void ReadChain(const std::string& key, const Json& value, const std::string& path) {
    int chain = ChainNamed(key, path);
    const Json& list = ListOf(key, value, path);
    size_t expected = model_.folding.chains[ToSize(chain)].nodes_per_block();
    if (list.size() != expected) {
      RefuseJson(file_, path, value,
                 fmt::format("{} strategies for a block of {} nodes", list.size(), expected));
    }
    for (int copy : nodes_.copies.at(chain)) {
      const std::vector<NodeId>& nodes = StageNodes::CopyOf(model_, chain, copy);
      for (size_t j = 0; j < expected; ++j) {
        if (nodes_.chain[nodes[j].index()] == chain) {
          ReadNode(nodes[j].index(), list[j], fmt::format("{}[{}]", path, j));
        }
      }
    }
  }

  void ReadNodes(const Json& json, const std::string& path, bool exceptions) {
    JsonFields fields(json, file_, path, {});
    std::map<std::string, size_t, std::less<>> by_name;
    for (size_t n = 0; n < given_.size(); ++n) {
      if (nodes_.ours[n] && (nodes_.chain[n] >= 0) == exceptions)
        by_name.emplace(KeyOf(model_, n), n);
    }
    for (const auto& [key, value] : json.items()) {
      auto found = by_name.find(key);
      if (found == by_name.end()) {
        std::vector<std::string_view> names;
        for (const auto& [name, n] : by_name) names.push_back(name);
        std::vector<std::string> near = Nearest(key, names);
        ThrowInput("{}: {}: no such node {} this stage{}", file_, fields.PathOf(key),
                   exceptions ? "in the chains of" : "outside the chains of",
                   near.empty() ? "" : fmt::format(": did you mean '{}'?", near[0]));
      }
      ReadNode(found->second, value, fields.PathOf(key));
    }
  }

  // "Linear dp=i0 tp=j".
  void ReadNode(size_t n, const Json& value, const std::string& path) {
    if (!value.is_string())
      RefuseJson(file_, path, value, "expected a text such as \"Linear dp=i0 tp=j\"");
    std::string_view text = value.get_ref<const std::string&>();
    const std::string& op = model_.graph.nodes[n].op;
    size_t space = std::min(text.find(' '), text.size());
    if (text.substr(0, space) != op)
      RefuseJson(file_, path, value, fmt::format("the node here is {}", op));
    text.remove_prefix(space);
    try {
      stage_.strategies[n] = StrategyFromText(stage_.mesh, model_.rules[n], text);
    } catch (const InputError& error) {
      RefuseJson(file_, path, value, error.what());
    }
    given_[n] = true;
  }

  const Model& model_;
  const Json& stages_;
  std::string_view file_;
  Stage& stage_;
  StageNodes nodes_;
  std::vector<bool> given_;
};

}  // namespace

Json StrategyWriter::Write(const Stage& stage) {
  const Model& model = model_;
  StageNodes nodes(model, stage);
  Json json = Json::object(), named = Json::object(), exceptions = Json::object();
  std::map<int, Json> lists;
  for (const auto& [chain, copies] : nodes.copies) {
    const Json& list = lists[chain] = ChainTexts(model, stage, nodes, chain);
    std::vector<std::pair<Json, int>>& listed = listed_[chain];
    auto same = std::find_if(listed.begin(), listed.end(),
                             [&](const auto& other) { return other.first == list; });
    if (same == listed.end()) {
      json[ChainKey(chain)] = list;
      listed.emplace_back(list, written_);
    } else {
      json[ChainKey(chain)] = fmt::format("{}{}", kAsStage, same->second);
    }
  }
  ++written_;
  for (size_t n = 0; n < nodes.ours.size(); ++n) {
    if (!nodes.ours[n] || nodes.chain[n] >= 0) continue;
    named[KeyOf(model, n)] = NodeText(model, stage, n);
  }
  for (const auto& [chain, copies] : nodes.copies) {
    for (int copy : copies) {
      const std::vector<NodeId>& ids = StageNodes::CopyOf(model, chain, copy);
      for (size_t j = 0; j < ids.size(); ++j) {
        if (nodes.chain[ids[j].index()] != chain) continue;
        std::string text = NodeText(model, stage, ids[j].index());
        if (lists[chain][j] != text) exceptions[KeyOf(model, ids[j].index())] = text;
      }
    }
  }
  json["nodes"] = named;
  if (!exceptions.empty()) json["exceptions"] = exceptions;
  return json;
}

void ReadStrategies(const Json& json, const Model& model, const Json& stages, std::string_view file,
                    const std::string& path, Stage& stage) {
  StrategyReader(model, stages, file, stage).Run(json, path);
}

}  // namespace heddle
