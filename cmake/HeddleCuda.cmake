# CUDA, where the libtorch that was found has it: HEDDLE_WITH_CUDA. src/runtime/cuda/ is built then, else
# src/runtime/no_cuda/. NCCL (ranks that own a GPU each) and CUPTI (times of kernels) are found beside it.

set(heddle_cuda "")
set(heddle_cuda_exclude cuda)
if(NOT TARGET torch_cuda)
  return()
endif()

enable_language(CUDA)
find_package(CUDAToolkit REQUIRED)
set(heddle_cuda_exclude no_cuda)

# Each on its own: they repeat names of the other transports and devices.
file(GLOB heddle_cuda_files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/runtime/cuda/*.cc")
set_source_files_properties(${heddle_cuda_files} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)

# Kernels of our own know pointers and streams only, not libtorch: nvcc need not see its headers.
file(GLOB heddle_cuda_kernel_files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/runtime/cuda/*.cu")
add_library(heddle_cuda_kernels STATIC ${heddle_cuda_kernel_files})
set_target_properties(heddle_cuda_kernels PROPERTIES CUDA_ARCHITECTURES "${HEDDLE_CUDA_ARCHITECTURES}"
                                                     CUDA_STANDARD 17 POSITION_INDEPENDENT_CODE ON)
target_include_directories(heddle_cuda_kernels PRIVATE "${CMAKE_SOURCE_DIR}/src")
target_link_libraries(heddle_cuda_kernels PUBLIC CUDA::cudart)

add_library(heddle_cuda INTERFACE)
target_compile_definitions(heddle_cuda INTERFACE HEDDLE_WITH_CUDA=1)
target_link_libraries(heddle_cuda INTERFACE heddle_cuda_kernels CUDA::cudart)
set(heddle_cuda heddle_cuda)

# libtorch's own folders first: what it was built with lies there in Python's packages.
set(hints ${CUDAToolkit_LIBRARY_DIR} "${TORCH_INSTALL_PREFIX}/../nvidia/nccl/lib"
          "${TORCH_INSTALL_PREFIX}/../nvidia/cu13/lib")
find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
          "${TORCH_INSTALL_PREFIX}/../nvidia/nccl/include")
find_library(NCCL_LIBRARY NAMES nccl libnccl.so.2 HINTS ${hints})
if(NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
  target_include_directories(heddle_cuda SYSTEM INTERFACE "${NCCL_INCLUDE_DIR}")
  target_link_libraries(heddle_cuda INTERFACE "${NCCL_LIBRARY}")
  target_compile_definitions(heddle_cuda INTERFACE HEDDLE_WITH_NCCL=1)
else()
  message(STATUS "NCCL not found: building without the transport nccl")
endif()

find_path(CUPTI_INCLUDE_DIR cupti.h HINTS ${CUDAToolkit_INCLUDE_DIRS}
          PATH_SUFFIXES ../extras/CUPTI/include)
find_library(CUPTI_LIBRARY NAMES cupti libcupti.so.13 HINTS ${hints} PATH_SUFFIXES ../extras/CUPTI/lib64)
if(CUPTI_INCLUDE_DIR AND CUPTI_LIBRARY)
  target_include_directories(heddle_cuda SYSTEM INTERFACE "${CUPTI_INCLUDE_DIR}")
  target_link_libraries(heddle_cuda INTERFACE "${CUPTI_LIBRARY}")
  target_compile_definitions(heddle_cuda INTERFACE HEDDLE_WITH_CUPTI=1)
else()
  message(STATUS "CUPTI not found: building without times of kernels")
endif()
