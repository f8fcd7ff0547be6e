// What kernels of the CPU are not to use, though the processor says that it has it.
#pragma once

namespace heddle {

// Tile registers (AMX) by oneDNN 2, which Debian's libtorch uses: its bf16 products end in an illegal instruction on some
// machines that have them. DNNL_MAX_CPU_ISA, where it is set, has the last word. To be called before the first product.
void AvoidTileRegisters();

}  // namespace heddle
