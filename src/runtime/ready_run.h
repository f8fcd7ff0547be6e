// A training run made ready: all that it reads is open and has been looked at, and its programs are lowered and verified.
//
//   ReadyRun run;                                run.model, run.plan and run.options are the caller's
//   OpenMask(run, "mask.safetensors", "plan.json");
//   MakeReady(run, {.data = "text.txt"}, {.seed = 1});
//   TrainDevice(run.InputsWith(json), run.options, transport, on_step);
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "plan/model.h"
#include "plan/plan.h"
#include "plan/pruning.h"
#include "program/program.h"
#include "runtime/data/data_source.h"
#include "runtime/train.h"
#include "runtime/weights.h"

namespace heddle {

struct ReadyRun {
  std::unique_ptr<Model> model;  // weights refer to it
  Plan plan;
  std::unique_ptr<Mask> mask;  // null: nothing is pruned
  Program program;
  std::unique_ptr<DataSource> data;
  std::unique_ptr<Program> forward;      // null: nothing is held out
  std::unique_ptr<DataSource> held_out;  // likewise
  WeightSource weights;
  ConstantSource constants;
  std::vector<double> reference;  // losses of another run, to be printed beside this one's
  TrainOptions options;

  // `run` is what checkpoints say of it (checkpoint/run_json.h).
  TrainInputs InputsWith(Json run) const {
    return {program, weights, constants, *data, std::move(run), forward.get(), held_out.get()};
  }
};

// The files that a run reads, beside its model.
struct RunFiles {
  std::string data;       // empty: made up
  std::string held_out;   // empty: nothing is held out
  std::string reference;  // empty: nothing is printed beside the losses
};

// Throws InputError for a precision that can be simulated and that no kernel here computes in.
void RequireRunnable(const Precision& precision);

// Prunes the run's plan by the mask in the file, whatever the plan was made with. Without a file ("") the plan, which
// `plan_name` names in errors, must not be of a pruned model.
void OpenMask(ReadyRun& run, const std::string& path, std::string_view plan_name);

// Opens data and weights and lowers the plan. Held-out data is read once: a token that the model does not know is found
// before anything is trained. Throws InputError.
void MakeReady(ReadyRun& run, const RunFiles& files, const WeightOptions& start);

}  // namespace heddle
