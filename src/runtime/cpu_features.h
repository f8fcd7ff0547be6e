// Features of the processor that kernels must not use although it claims to have them.
#pragma once

namespace heddle {

// Keeps oneDNN 2, which Debian's libtorch uses, from tile registers (AMX): its bf16 products end in an illegal
// instruction on some machines that have them. A DNNL_MAX_CPU_ISA in the environment is kept. To be called before the
// first product.
void AvoidTileRegisters();

}  // namespace heddle
