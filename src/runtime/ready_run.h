// A training run that is ready to start: its files are open and checked, and its programs are lowered and verified.
//
//   ReadyRun run;                                the caller fills run.model, run.plan and run.options
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
  std::unique_ptr<DataSource> held_out;  // null: nothing is held out
  WeightSource weights;
  ConstantSource constants;
  std::vector<double> reference;  // losses of another run, printed beside those of this one
  TrainOptions options;

  // `run` describes the run in checkpoints (checkpoint/run_json.h).
  TrainInputs InputsWith(Json run) const {
    return {program, weights, constants, *data, std::move(run), forward.get(), held_out.get()};
  }
};

// The files that a run reads besides its model.
struct RunFiles {
  std::string data;       // empty: made-up data
  std::string held_out;   // empty: nothing is held out
  std::string reference;  // empty: nothing is printed beside the losses
};

// Throws InputError for a precision that can only be simulated: no kernel here computes in it.
void RequireRunnable(const Precision& precision);

// Prunes the run's plan with the mask in the file, which replaces the mask that the plan was made with. Without a file
// ("") the plan must not be of a pruned model; errors call it `plan_name`.
void OpenMask(ReadyRun& run, const std::string& path, std::string_view plan_name);

// Opens data and weights and lowers the plan. Reads held-out data once, so that a token that the model does not know is
// found before training starts. Throws InputError.
void MakeReady(ReadyRun& run, const RunFiles& files, const WeightOptions& start);

}  // namespace heddle
