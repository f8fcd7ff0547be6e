// Whether a program is sound: that every device can run its list, that what devices do together fits together, and
// that at the end every parameter has been trained once.
//
// Verify returns everything it finds wrong, one line each, at most kMaxFindings of them. It proves, for every run of
// devices:
//
//   indices     stages, segments, Locals, steps, groups, transfers, tied groups, micro-batches and buffers are in
//               range; every stage is on one run; buffers and instructions are of the run's stages. (Where this fails
//               nothing else is looked at.)
//   layouts     a reshard step starts from the layout of its source and ends in that of its Local: what every device
//               holds, and the partial states; and it does what its kind says along its axes. The ends of a transfer
//               are complete. Terms of a sum, and what the stages hold of a tied parameter, lie alike. Inputs and outputs of a segment, and their gradients, lie as
//               the strategies of the nodes that read and make them say; and so do the factors of gradients, with nothing
//               split along the axes they are gathered over. A gradient is a segment's, or computed from factors
//   operands    every instruction reads, writes and adds to the buffers that its segment, Local, transfer or group
//               names, at its micro-batch
//   buffers     each is written, or added to, before it is read; written once, or added to and never written (in
//               place: by an instruction that also reads it); not added to after it was read; freed once, after its
//               last use. Persistent buffers (weights, optimizer state, constants) are never written or freed.
//               The weights of a group are gathered again only when those gathered before were freed
//   waits       point backward, and name the last writer, where it is of another stream, of everything touched
//   order       every segment runs forward once per micro-batch (or once), is recomputed once after that where it is
//               in a unit that has a backward, then runs BW once, or B once and W once (W where something waits for
//               it)
//   training    a parameter that a gradient reaches is in a trained group of every stage that reads it. Gradients from
//               factors are computed once per micro-batch. What each micro-batch adds to a group's gradients is reduced,
//               over all its axes and over the stages that hold it, reported, and the group is updated once. Gradients
//               are reduced over at least the axes along which they are partial; nothing a group holds is split along
//               these
//   messages    every message that is sent is received, and posted once: (from, to, transfer, micro-batch, shape)
//   together    all devices are run in step. Communication is issued without waiting; an instruction waits for what
//               it touches. The n-th collective of a group is the same on all its members, with the same kind and
//               payload. Nobody waits for ever
//
// The last two are exact to kJointDevices devices. In larger programs one device stands for each run, so that only
// the order between runs is proved; devices of a run have the same list, and it is the layouts that make their
// payloads agree. O(instructions x devices, or x runs), and a layout compared device by device where two are not
// written alike.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "program/program.h"

namespace heddle {

constexpr size_t kMaxFindings = 50;
constexpr int64_t kJointDevices = 64;

std::vector<std::string> Verify(const Program& program);

}  // namespace heddle
