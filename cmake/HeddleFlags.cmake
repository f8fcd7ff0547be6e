# Compiler flags. Flags every object needs (sanitizers) are global; warnings are for our own code
# only and travel with the interface library heddle_flags.

set(CMAKE_CXX_FLAGS_RELEASE "-O2 -DNDEBUG")

if(HEDDLE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "HEDDLE_FUZZ needs clang: use the preset `fuzz`, or -DCMAKE_CXX_COMPILER=clang++-14")
  endif()
  add_compile_options(-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=address,undefined)
elseif(HEDDLE_SANITIZE)
  add_compile_options(-fsanitize=${HEDDLE_SANITIZE} -fno-sanitize-recover=all
                      -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${HEDDLE_SANITIZE})
endif()

add_library(heddle_flags INTERFACE)
target_compile_options(heddle_flags INTERFACE
  -Wall -Wextra -Wconversion
  -ffp-contract=off  # the same numbers on every machine
  "-fmacro-prefix-map=${CMAKE_SOURCE_DIR}/=")
if(HEDDLE_WERROR)
  target_compile_options(heddle_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  if(HEDDLE_UNITY)
    # A class that a file keeps to itself may hold types of its unnamed namespace; included, GCC takes it for a header's.
    target_compile_options(heddle_flags INTERFACE -Wno-subobject-linkage)
  endif()
  if(HEDDLE_SANITIZE)
    # Instrumented code confuses these two.
    target_compile_options(heddle_flags INTERFACE -Wno-maybe-uninitialized -Wno-tsan)
  endif()
else()
  # gcc's -Wconversion leaves out sign conversions; clang's includes them.
  target_compile_options(heddle_flags INTERFACE -Wno-sign-conversion)
endif()

find_program(HEDDLE_CCACHE ccache)
if(HEDDLE_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # The sloppiness is what ccache asks for to cache objects that use a precompiled header.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      env CCACHE_SLOPPINESS=pch_defines,time_macros "${HEDDLE_CCACHE}")
endif()
