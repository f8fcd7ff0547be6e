# heddle_module(NAME deps... [TORCH] [LIBS ...] [EXCLUDE folders...])
#
# The static library heddle_NAME from src/NAME/**/*.cc and, beside it:
#   *_test.cc       one gtest program build/tests/heddle_NAME_test, every test of it known to ctest
#                   as NAME.Suite.Test (for TORCH modules in shards, see heddle_add_test)
#   *_slow_test.cc  likewise heddle_NAME_slow_test, with the ctest label `slow`
#   *_fuzz.cc       with HEDDLE_FUZZ, one libFuzzer program build/heddle_FILE each
# Includes are written from src/: "graph/graph.h". `deps` are the modules it may include; LIBS are
# outside libraries; EXCLUDE names folders inside the module to leave out; TORCH marks a module that
# exists only with HEDDLE_TORCH=ON. A module with no sources yet is an empty interface library.

include(GoogleTest)

set(HEDDLE_ARROWS_FILE "${CMAKE_BINARY_DIR}/arrows.txt")
file(WRITE "${HEDDLE_ARROWS_FILE}.new" "")

# The limit of time for one test. Instrumented code is slower (kSlowdown in base/testing.h).
set(HEDDLE_TEST_SECONDS 600)
if(HEDDLE_SANITIZE)
  set(HEDDLE_TEST_SECONDS 3000)
endif()

# Adds the gtest program `target` from the sources in ARGN, linked with the module's library. Its
# ctest names begin with `prefix`. With `shards` > 0 ctest knows that many equal parts of it rather
# than each test: loading libtorch takes 0.4 s, too much to pay per test.
function(heddle_add_test target library prefix label shards)
  add_executable(${target} ${ARGN})
  target_link_libraries(${target} PRIVATE ${library} heddle_flags GTest::gtest GTest::gmock
                                          GTest::gtest_main)
  target_compile_definitions(${target} PRIVATE HEDDLE_TEST_DATA="${CMAKE_SOURCE_DIR}/tests/data")
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
  if(label STREQUAL "slow")  # built by `make check-slow` alone
    set_target_properties(${target} PROPERTIES EXCLUDE_FROM_ALL ON)
    if(NOT TARGET slow_tests)
      add_custom_target(slow_tests)
    endif()
    add_dependencies(slow_tests ${target})
  endif()
  if(shards EQUAL 0)
    gtest_discover_tests(${target}
      TEST_PREFIX "${prefix}."
      DISCOVERY_MODE PRE_TEST
      DISCOVERY_TIMEOUT 120
      WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}"
      PROPERTIES TIMEOUT ${HEDDLE_TEST_SECONDS} LABELS ${label})  # one label: the property takes no list
    return()
  endif()
  math(EXPR last "${shards} - 1")
  foreach(shard RANGE ${last})
    set(test "${prefix}.shard_${shard}")
    add_test(NAME ${test} COMMAND ${target} --gtest_brief=1 WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
    set_tests_properties(${test} PROPERTIES
      TIMEOUT ${HEDDLE_TEST_SECONDS}
      COST 1000  # the longest tests: first, also where ctest has no times of an earlier run
      LABELS ${label}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard}")
  endforeach()
endfunction()

# One precompiled header each for plain code (owned by heddle_base), plain tests (heddle_base_test) and all that
# sees libtorch (heddle_runtime): heddle_header(TARGET OWNER headers...) makes it for OWNER and has every
# other target reuse it. The flags of a target may differ from its owner's in warnings and added definitions only.
function(heddle_header target owner)
  if(target STREQUAL owner)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  else()
    target_precompile_headers(${target} REUSE_FROM ${owner})
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # -fpch-preprocess lets ccache see through it. The rest: GCC forgets that what was precompiled is the system's,
    # and gives its false alarms.
    target_compile_options(${target} PRIVATE -fpch-preprocess -Wno-array-bounds
      -Wno-stringop-overflow -Wno-stringop-overread -Wno-restrict -Wno-maybe-uninitialized)
  endif()
endfunction()

set(HEDDLE_PLAIN_HEADERS
  <algorithm> <array> <cstdint> <functional> <map> <memory> <optional> <set> <string> <string_view> <vector>
  <fmt/format.h> <nlohmann/json.hpp>)

function(heddle_plain_header target)
  heddle_header(${target} heddle_base ${HEDDLE_PLAIN_HEADERS})
endfunction()

function(heddle_test_header target)
  heddle_header(${target} heddle_base_test ${HEDDLE_PLAIN_HEADERS} <gtest/gtest.h> <gmock/gmock.h>)
  target_compile_options(${target} PRIVATE $<$<CONFIG:Release>:-O1>)  # compiles a quarter faster than -O2
endfunction()

function(heddle_torch_header target)
  set_property(GLOBAL APPEND PROPERTY HEDDLE_TORCH_TARGETS ${target})
  heddle_header(${target} heddle_runtime <ATen/ATen.h> <torch/csrc/autograd/autograd.h> <torch/types.h>)
endfunction()

# heddle_folders(MODULE "folder deps..."...): the arrows between the folders of a module. Files in its root may include all
# of them; none of them may include the root.
function(heddle_folders name)
  foreach(line IN LISTS ARGN)
    string(REGEX REPLACE "([a-z_]+)" "${name}/\\1" line "${line}")
    file(APPEND "${HEDDLE_ARROWS_FILE}.new" "${line}\n")
  endforeach()
endfunction()

function(heddle_module name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "TORCH" "" "LIBS;EXCLUDE")
  set(deps ${arg_UNPARSED_ARGUMENTS})
  list(JOIN deps " " words)
  file(APPEND "${HEDDLE_ARROWS_FILE}.new" "${name} ${words}\n")
  if(arg_TORCH AND NOT HEDDLE_TORCH)
    return()
  endif()

  set(root "${CMAKE_SOURCE_DIR}/src/${name}")
  file(GLOB_RECURSE files CONFIGURE_DEPENDS "${root}/*.cc")
  foreach(folder IN LISTS arg_EXCLUDE)
    list(FILTER files EXCLUDE REGEX "^${root}/${folder}/")
  endforeach()
  list(REMOVE_ITEM files "${CMAKE_SOURCE_DIR}/src/cli/main.cc")
  set(sources ${files})
  set(slow_tests ${files})
  set(tests ${files})
  set(fuzzers ${files})
  list(FILTER sources EXCLUDE REGEX "_(test|fuzz)\\.cc$")
  list(FILTER slow_tests INCLUDE REGEX "_slow_test\\.cc$")
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER tests EXCLUDE REGEX "_slow_test\\.cc$")
  list(FILTER fuzzers INCLUDE REGEX "_fuzz\\.cc$")

  set(library heddle_${name})
  if(sources)
    set(reach PUBLIC)
    add_library(${library} STATIC ${sources})
    target_link_libraries(${library} PRIVATE heddle_flags)
  else()
    set(reach INTERFACE)
    add_library(${library} INTERFACE)
  endif()
  target_include_directories(${library} ${reach} "${CMAKE_SOURCE_DIR}/src")
  foreach(dep IN LISTS deps)
    if(name STREQUAL "cli" AND dep MATCHES "^(runtime|learn)$")
      continue()  # linked into heddle-torch only, see heddle_program
    endif()
    if(NOT TARGET heddle_${dep})
      message(FATAL_ERROR "module ${name} names ${dep}, which is not declared before it")
    endif()
    target_link_libraries(${library} ${reach} heddle_${dep})
  endforeach()
  target_link_libraries(${library} ${reach} ${arg_LIBS})
  if(arg_TORCH)
    target_link_libraries(${library} ${reach} heddle_torch)
  endif()
  if(arg_TORCH AND sources)
    heddle_torch_header(${library})
  elseif(sources)
    heddle_plain_header(${library})
  endif()

  if(BUILD_TESTING)
    if(tests)
      set(shards 0)
      if(arg_TORCH)
        set(shards 4)
      endif()
      heddle_add_test(${library}_test ${library} ${name} ${name} ${shards} ${tests})
      list(APPEND test_targets ${library}_test)
    endif()
    if(slow_tests)
      heddle_add_test(${library}_slow_test ${library} ${name}.slow slow 0 ${slow_tests})
      list(APPEND test_targets ${library}_slow_test)
    endif()
    foreach(target IN LISTS test_targets)
      if(arg_TORCH)
        heddle_torch_header(${target})
      else()
        heddle_test_header(${target})
      endif()
    endforeach()
  endif()

  if(HEDDLE_FUZZ)
    foreach(file IN LISTS fuzzers)
      get_filename_component(stem "${file}" NAME_WE)
      add_executable(heddle_${stem} "${file}")
      target_link_libraries(heddle_${stem} PRIVATE ${library} heddle_flags)
      target_link_options(heddle_${stem} PRIVATE -fsanitize=fuzzer)
      if(NOT TARGET fuzzers)
        add_custom_target(fuzzers)
      endif()
      add_dependencies(fuzzers heddle_${stem})
    endforeach()
  endif()
endfunction()

# Generates the files in ARGN of a module before everything else, not after the libraries that the module depends on.
function(heddle_generated module)
  add_custom_target(heddle_${module}_generated DEPENDS ${ARGN})
  add_dependencies(heddle_${module} heddle_${module}_generated)
endfunction()

# Generates C++ from src/PROTO into the module; included as "frontend/onnx/x.pb.h".
function(heddle_protobuf module proto)
  file(GLOB found CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/${proto}")
  get_target_property(type heddle_${module} TYPE)
  if(NOT found OR type STREQUAL "INTERFACE_LIBRARY")
    return()
  endif()
  set(out "${CMAKE_BINARY_DIR}/generated")
  string(REGEX REPLACE "\\.proto$" ".pb" stem "${out}/${proto}")
  file(MAKE_DIRECTORY "${out}")
  add_custom_command(
    OUTPUT "${stem}.cc" "${stem}.h"
    COMMAND protobuf::protoc "--proto_path=${CMAKE_SOURCE_DIR}/src" "--cpp_out=${out}"
            "${CMAKE_SOURCE_DIR}/src/${proto}"
    DEPENDS "${CMAKE_SOURCE_DIR}/src/${proto}"
    COMMENT "protoc ${proto}"
    VERBATIM)
  target_sources(heddle_${module} PRIVATE "${stem}.cc" "${stem}.h")
  heddle_generated(${module} "${stem}.cc" "${stem}.h")
  set_source_files_properties("${stem}.cc" PROPERTIES COMPILE_OPTIONS -w)
  target_include_directories(heddle_${module} SYSTEM PUBLIC "${out}")
  target_link_libraries(heddle_${module} PUBLIC protobuf::libprotobuf)
  target_compile_definitions(heddle_${module} PUBLIC HEDDLE_WITH_ONNX=1)
endfunction()

# Makes the text of src/FILE part of the module: std::string_view heddle::FUNCTION(), which a header of the module
# declares.
function(heddle_bundle module file function)
  set(in "${CMAKE_SOURCE_DIR}/src/${file}")
  set(out "${CMAKE_BINARY_DIR}/generated/${file}.cc")
  set(script "${CMAKE_SOURCE_DIR}/cmake/Bundle.cmake")
  add_custom_command(
    OUTPUT "${out}"
    COMMAND "${CMAKE_COMMAND}" "-DIN=${in}" "-DOUT=${out}" "-DFUNCTION=${function}" -P "${script}"
    DEPENDS "${in}" "${script}"
    COMMENT "bundle ${file}"
    VERBATIM)
  target_sources(heddle_${module} PRIVATE "${out}")
  heddle_generated(${module} "${out}")
endfunction()

# Two programs from one main: loading libtorch takes half a second, so `heddle` does without it and hands
# the commands that need it (src/cli/torch/) over to `heddle-torch`, which lies beside it.
function(heddle_program)
  set(main "${CMAKE_SOURCE_DIR}/src/cli/main.cc")
  add_executable(heddle "${main}")
  target_link_libraries(heddle PRIVATE heddle_cli heddle_flags ${heddle_malloc})
  target_compile_definitions(heddle PRIVATE HEDDLE_VERSION="${PROJECT_VERSION}")
  if(HEDDLE_TORCH)
    file(GLOB sources CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/src/cli/torch/*.cc")
    add_library(heddle_cli_torch STATIC ${sources})
    target_link_libraries(heddle_cli_torch PUBLIC heddle_cli heddle_runtime heddle_learn
                                           PRIVATE heddle_flags)
    heddle_torch_header(heddle_cli_torch)
    add_executable(heddle-torch "${main}")
    target_link_libraries(heddle-torch PRIVATE heddle_cli_torch heddle_flags)
    target_compile_definitions(heddle-torch PRIVATE HEDDLE_VERSION="${PROJECT_VERSION}"
                                                    HEDDLE_WITH_TORCH=1)
    add_dependencies(heddle heddle-torch)
  endif()
endfunction()

# What links every module there is.
function(heddle_link_all target)
  if(HEDDLE_TORCH)
    target_link_libraries(${target} PRIVATE heddle_cli_torch heddle_flags)
  else()
    target_link_libraries(${target} PRIVATE heddle_cli heddle_flags)
  endif()
endfunction()

function(heddle_benches)
  file(GLOB files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/bench/*.cc")
  if(HEDDLE_TORCH)
    file(GLOB torch_files CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/bench/torch/*.cc")
    list(APPEND files ${torch_files})
  endif()
  add_custom_target(bench)
  foreach(file IN LISTS files)
    get_filename_component(stem "${file}" NAME_WE)
    add_executable(bench_${stem} EXCLUDE_FROM_ALL "${file}")
    heddle_link_all(bench_${stem})
    set_target_properties(bench_${stem} PROPERTIES
      OUTPUT_NAME ${stem} RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/bench")
    add_dependencies(bench bench_${stem})
  endforeach()
endfunction()

# Tests of the whole: tests/*_test.cc see every module but those with libtorch, and HEDDLE_BINARY, the path
# of build/heddle; tests/torch/*_test.cc see all modules.
function(heddle_whole_tests)
  file(RENAME "${HEDDLE_ARROWS_FILE}.new" "${HEDDLE_ARROWS_FILE}")
  set(script "${CMAKE_SOURCE_DIR}/tests/arrows.sh")
  add_test(NAME arrows COMMAND "${script}" "${HEDDLE_ARROWS_FILE}" "${CMAKE_SOURCE_DIR}/src")
  add_test(NAME arrows.self_check COMMAND "${script}" --self-check)
  set(script "${CMAKE_SOURCE_DIR}/tests/op_names.sh")
  add_test(NAME op_names COMMAND "${script}" "${CMAKE_SOURCE_DIR}")
  add_test(NAME op_names.self_check COMMAND "${script}" --self-check)

  # Samples, without tests of their own, that a module's tests share with those of the whole.
  set(shared
    src/frontend/fuse_fusing_patterns_test.cc
    src/frontend/fuse_near_patterns_test.cc
    src/frontend/fuse_patterns_test.cc
    src/runtime/kernels/op_case_test.cc
    src/runtime/kernels/op_samples_numeric_test.cc
    src/runtime/kernels/op_samples_structural_test.cc
    src/runtime/kernels/op_samples_test.cc
    src/runtime/kernels/sharded_eval_test.cc
    src/runtime/kernels/sharded_graph_test.cc)
  list(TRANSFORM shared PREPEND "${CMAKE_SOURCE_DIR}/")

  foreach(folder IN ITEMS tests tests/torch)
    set(torch FALSE)
    set(name whole)
    set(library heddle_cli)
    set(shards 0)
    if(folder STREQUAL "tests/torch")
      if(NOT HEDDLE_TORCH)
        continue()
      endif()
      set(torch TRUE)
      set(name whole_torch)
      set(library heddle_cli_torch)
      set(shards 4)
    endif()
    file(GLOB slow CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/*_slow_test.cc")
    file(GLOB quick CONFIGURE_DEPENDS "${CMAKE_SOURCE_DIR}/${folder}/*_test.cc")
    list(FILTER quick EXCLUDE REGEX "_slow_test\\.cc$")
    if(torch AND quick)
      list(APPEND quick ${shared})
    endif()
    if(torch AND slow)
      list(APPEND slow "${CMAKE_SOURCE_DIR}/${folder}/plan_harness_test.cc")  # without tests of its own, too
    endif()
    set(targets)
    if(quick)
      heddle_add_test(heddle_${name}_test ${library} ${name} ${name} ${shards} ${quick})
      list(APPEND targets heddle_${name}_test)
    endif()
    if(slow)
      heddle_add_test(heddle_${name}_slow_test ${library} ${name}.slow slow 0 ${slow})
      list(APPEND targets heddle_${name}_slow_test)
    endif()
    foreach(target IN LISTS targets)
      target_compile_definitions(${target} PRIVATE HEDDLE_BINARY="$<TARGET_FILE:heddle>")
      # They run build/heddle. Linking waits for it, compiling does not.
      set_property(TARGET ${target} APPEND PROPERTY LINK_DEPENDS "${CMAKE_BINARY_DIR}/heddle")
      if(torch)
        heddle_torch_header(${target})
      else()
        target_link_libraries(${target} PRIVATE ${heddle_malloc})
        heddle_test_header(${target})
      endif()
    endforeach()
  endforeach()
endfunction()

# The target `single_files`: the objects of everything that sees libtorch, and no libraries or programs. The preset
# `single-files` compiles each file on its own and without precompiled headers.
function(heddle_single_files)
  get_property(targets GLOBAL PROPERTY HEDDLE_TORCH_TARGETS)
  set(objects)
  foreach(target IN LISTS targets)
    list(APPEND objects $<TARGET_OBJECTS:${target}>)
  endforeach()
  set(stamp "${CMAKE_BINARY_DIR}/single_files.stamp")
  add_custom_command(OUTPUT "${stamp}" COMMAND "${CMAKE_COMMAND}" -E touch "${stamp}"
                     DEPENDS ${objects} COMMAND_EXPAND_LISTS VERBATIM)
  add_custom_target(single_files DEPENDS "${stamp}")
endfunction()

# Adds the ctest mpi.NAME: `program` with the arguments in ARGN as so many ranks under mpirun.
function(heddle_add_mpi_test name ranks program)
  set(test "mpi.${name}")
  add_test(NAME ${test}
    COMMAND sh -c "\"$@\" || { code=$?; echo exit code $code; exit $code; }" sh
            "${MPIEXEC_EXECUTABLE}" --oversubscribe --bind-to none ${MPIEXEC_NUMPROC_FLAG} ${ranks}
            $<TARGET_FILE:${program}> ${ARGN}
    WORKING_DIRECTORY "${CMAKE_SOURCE_DIR}")
  set_tests_properties(${test} PROPERTIES
    TIMEOUT 300
    LABELS mpi
    PROCESSORS 2
    ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1;\
OMPI_MCA_btl_vader_single_copy_mechanism=none;OMP_NUM_THREADS=1")
endfunction()

# tests/mpi: a program that every rank runs whole; it exits with 0 when all is well.
function(heddle_mpi_tests)
  if(NOT HEDDLE_TORCH)
    return()
  endif()
  foreach(program IN ITEMS transport_mpi_test plan_mpi_test)
    add_executable(${program} "${CMAKE_SOURCE_DIR}/tests/mpi/${program}.cc")
    target_link_libraries(${program} PRIVATE heddle_cli_torch heddle_flags)
    set_target_properties(${program} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${CMAKE_BINARY_DIR}/tests")
    heddle_torch_header(${program})
  endforeach()
  foreach(ranks IN ITEMS 2 4 8)
    heddle_add_mpi_test(plans.np_${ranks} ${ranks} plan_mpi_test "${CMAKE_SOURCE_DIR}/tests/data")
  endforeach()
  foreach(ranks IN ITEMS 1 2 3 4 8)
    heddle_add_mpi_test(transport.np_${ranks} ${ranks} transport_mpi_test)
  endforeach()
  # Ways to fail, and the line each must print.
  set(deadline "rank 0 waited 0.5 s for all-reduce of 7 Float among ranks 0,1")
  set(group "rank 0 waited 0.5 s for rank 1 to add the group 0,1")
  set(message "ranks disagree: rank 0 waits for 4 Float from rank 1 with tag 0, which sent 3 elements")
  set(large "rank 1 to take 2147483648 Byte with tag 0: more than 2147483647 elements at once")
  set(abort "heddle: rank 0 of 2: out of disk")
  set(input "heddle: rank 0 of 2: no such file.*exit code 2")
  foreach(how IN ITEMS deadline group message large abort input)
    heddle_add_mpi_test(transport.${how} 2 transport_mpi_test ${how})
    set_tests_properties(mpi.transport.${how} PROPERTIES PASS_REGULAR_EXPRESSION "${${how}}")
  endforeach()
endfunction()
