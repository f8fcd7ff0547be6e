#include "fleet/one_device.h"

#include "base/error.h"
#include "fleet/dispatch.h"

namespace heddle {
namespace {

// Visits of a job that stays on one device.
class OnOneDevice : public ShardRunner {
 public:
  OnOneDevice(ShardRunner& job, int device) : job_(job), device_(device) {}
  int visits() const override { return job_.visits(); }
  int64_t first_step() const override { return job_.first_step(); }
  void Prefetch(int visit, int) override { job_.Prefetch(visit, device_); }
  std::optional<StepRecord> Run(int64_t step, int visit, int) override {
    return job_.Run(step, visit, device_);
  }
  void Leave() override { job_.Leave(); }
  void Finish() override { job_.Finish(); }

 private:
  ShardRunner& job_;
  int device_;
};

// Forwards steps to a function.
struct StepsTo : FleetObserver {
  explicit StepsTo(const std::function<void(const StepRecord&)>& to) : on_step(to) {}
  void OnStep(int, const StepRecord& record, const FleetRun&, DispatchControl&) override {
    on_step(record);
  }
  void OnEnd(int, const FleetRun&, DispatchControl&) override {}
  const std::function<void(const StepRecord&)>& on_step;
};

}  // namespace

void RunOnOneDevice(ShardRunner& job, const OneDeviceOptions& options, const PolicyDef& policy,
                    const std::function<void(const StepRecord&)>& on_step) {
  OnOneDevice here(job, options.device);
  StepsTo observer(on_step);
  FleetRun run = Dispatch({{.runner = &here, .steps = options.steps}},
                          {.double_buffering = options.double_buffering, .stop = options.stop},
                          policy, &observer);
  if (!run.jobs[0].error.empty()) ThrowRun("{}", run.jobs[0].error);
}

}  // namespace heddle
