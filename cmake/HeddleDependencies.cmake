# The libraries heddle stands on. scripts/bootstrap installs them on Debian.

find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(yaml-cpp REQUIRED)
find_package(CLI11 REQUIRED)
find_package(ZLIB REQUIRED)
if(BUILD_TESTING)
  find_package(GTest REQUIRED)
endif()

# hwloc is for `discover` only; without it the machine is described more coarsely.
set(heddle_hwloc "")
find_path(HWLOC_INCLUDE_DIR hwloc.h)
find_library(HWLOC_LIBRARY hwloc)
if(HWLOC_INCLUDE_DIR AND HWLOC_LIBRARY)
  add_library(heddle_hwloc INTERFACE)
  target_include_directories(heddle_hwloc SYSTEM INTERFACE "${HWLOC_INCLUDE_DIR}")
  target_link_libraries(heddle_hwloc INTERFACE "${HWLOC_LIBRARY}")
  target_compile_definitions(heddle_hwloc INTERFACE HEDDLE_WITH_HWLOC=1)
  set(heddle_hwloc heddle_hwloc)
else()
  message(STATUS "hwloc not found (libhwloc-dev): building without it")
endif()

# Searches allocate many small lists on several threads, which mimalloc does much faster than
# glibc. Linking it replaces malloc. Sanitizers have their own.
set(heddle_malloc "")
find_library(MIMALLOC_LIBRARY mimalloc)
if(MIMALLOC_LIBRARY AND NOT HEDDLE_SANITIZE AND NOT HEDDLE_FUZZ)
  set(heddle_malloc "-Wl,--no-as-needed" "${MIMALLOC_LIBRARY}" "-Wl,--as-needed")
elseif(NOT MIMALLOC_LIBRARY)
  message(STATUS "mimalloc not found (libmimalloc-dev): building without it")
endif()

# CBC solves integer programs: a baseline of the search, which does without it. It is loaded at its first use
# (src/search/solver/cbc.cc), and not linked: it would bring OpenBLAS and its threads into every command.
set(heddle_cbc "")
find_path(CBC_INCLUDE_DIR Cbc_C_Interface.h PATH_SUFFIXES coin coin-or)
find_library(CBC_LIBRARY CbcSolver)
if(CBC_INCLUDE_DIR AND CBC_LIBRARY)
  add_library(heddle_cbc INTERFACE)
  target_include_directories(heddle_cbc SYSTEM INTERFACE "${CBC_INCLUDE_DIR}")
  target_link_libraries(heddle_cbc INTERFACE ${CMAKE_DL_LIBS})
  target_compile_definitions(heddle_cbc INTERFACE HEDDLE_WITH_CBC=1)
  set(heddle_cbc heddle_cbc)
else()
  message(STATUS "CBC not found (coinor-libcbc-dev): building without integer programs")
endif()

# ONNX. The whole libprotobuf is linked although the generated code needs only its lite half:
# Debian's libtorch loads the whole one, and two copies in one process would clash.
set(heddle_with_onnx OFF)
set(heddle_onnx_exclude onnx)
if(HEDDLE_ONNX)
  find_package(Protobuf QUIET)
  if(Protobuf_FOUND AND TARGET protobuf::protoc)
    set(heddle_with_onnx ON)
    set(heddle_onnx_exclude "")
  elseif(HEDDLE_ONNX STREQUAL "AUTO")
    message(STATUS "protobuf or protoc not found: building without ONNX import "
                   "(Debian: libprotobuf-dev protobuf-compiler)")
  else()
    message(FATAL_ERROR "HEDDLE_ONNX=ON needs protobuf and protoc (Debian: libprotobuf-dev "
                        "protobuf-compiler); -DHEDDLE_ONNX=OFF builds without ONNX import")
  endif()
endif()

if(HEDDLE_TORCH)
  set(MPI_CXX_SKIP_MPICXX ON)
  find_package(MPI COMPONENTS CXX)
  if(NOT MPI_CXX_FOUND)
    message(FATAL_ERROR "MPI not found (Debian: libopenmpi-dev openmpi-bin); "
                        "-DHEDDLE_TORCH=OFF builds everything but the runtime")
  endif()
  find_package(Torch QUIET)
  if(NOT Torch_FOUND)
    message(FATAL_ERROR
      "libtorch not found. Install it (Debian: libtorch-dev), or point CMAKE_PREFIX_PATH at an "
      "unpacked libtorch 2.x, or build without the runtime: -DHEDDLE_TORCH=OFF")
  endif()
  if(TORCH_CXX_FLAGS MATCHES "_GLIBCXX_USE_CXX11_ABI=0")
    message(FATAL_ERROR "this libtorch uses the old C++ ABI; take the download named cxx11-abi")
  endif()
  # Every torch header is a system header to us, and the flags of the package come along.
  add_library(heddle_torch INTERFACE)
  # Upstream libtorch exports parts of an older libstdc++ (std::filesystem among them) that crash when called from
  # outside: the compiler's own must be found first.
  target_link_libraries(heddle_torch INTERFACE stdc++ ${TORCH_LIBRARIES})
  target_include_directories(heddle_torch SYSTEM INTERFACE ${TORCH_INCLUDE_DIRS})
  # Upstream libtorch ships the headers of its own fmt, which come before the system's and do not match its
  # library: there, code beside torch takes fmt from the headers alone.
  foreach(folder IN LISTS TORCH_INCLUDE_DIRS)
    if(EXISTS "${folder}/fmt/format.h" AND NOT folder STREQUAL "/usr/include")
      target_compile_definitions(heddle_torch INTERFACE FMT_HEADER_ONLY=1)
      break()
    endif()
  endforeach()
  include(HeddleCuda)
  message(STATUS "libtorch ${Torch_VERSION}: ${TORCH_LIBRARY}")
endif()
