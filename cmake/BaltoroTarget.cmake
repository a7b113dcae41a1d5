# baltoro_layer(NAME SOURCES... DEPENDS layers... LIBRARIES external...) makes the static library of one row of the layer table.
# Includes are written from src/ ("core/dtype.h") and include/ ("baltoro/engine.h"). HOT: tests spend their time here, so a
# debug build optimises it a little; elsewhere that would double the compile time under sanitizers. JSON: most files parse its
# header for longer than themselves, so it is precompiled; not in the preset tsan, where a forgotten header shows.

add_library(baltoro_options INTERFACE)
target_compile_options(baltoro_options INTERFACE
  $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra -Wpedantic -Wshadow -Wconversion -ffp-contract=off>
  $<$<COMPILE_LANGUAGE:CUDA>:-Xcompiler=-Wall,-Wextra,-ffp-contract=off>)
target_include_directories(baltoro_options INTERFACE ${PROJECT_SOURCE_DIR}/src)
if(BALTORO_SANITIZE)
  target_compile_options(baltoro_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-fsanitize=${BALTORO_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all>)
  target_link_options(baltoro_options INTERFACE -fsanitize=${BALTORO_SANITIZE})
  # Some fifty programs of 50 MB each: lld takes a third of the default linker's time.
  find_program(BALTORO_LLD ld.lld)
  if(BALTORO_LLD)
    target_link_options(baltoro_options INTERFACE -fuse-ld=lld)
  endif()
endif()
if(BALTORO_TRACE)
  target_compile_definitions(baltoro_options INTERFACE BALTORO_TRACE=1)
endif()
if(BALTORO_STATIC)
  # A CUDA binary loads the driver when it runs, which takes a shared libc.
  target_link_options(baltoro_options INTERFACE $<IF:$<BOOL:${BALTORO_CUDA}>,-static-libstdc++;-static-libgcc,-static>)
endif()

function(baltoro_layer name)
  cmake_parse_arguments(ARG "HOT;JSON" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(baltoro_${name} STATIC ${ARG_SOURCES})
  target_include_directories(baltoro_${name} PUBLIC ${PROJECT_SOURCE_DIR}/include)
  list(TRANSFORM ARG_DEPENDS PREPEND baltoro_)
  target_link_libraries(baltoro_${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_LIBRARIES} baltoro_options)
  if(ARG_HOT)
    target_compile_options(baltoro_${name} PRIVATE $<$<CONFIG:Debug>:-O1>)
  endif()
  if(ARG_JSON)
    target_precompile_headers(baltoro_${name} PRIVATE <filesystem> <fmt/format.h> <functional> <nlohmann/json.hpp>)
  endif()
endfunction()

# baltoro_test(NAME LABEL label SOURCES... LINK layers... UNSANITIZED filters...) makes one GoogleTest binary whose tests carry
# the label; those whose name begins with "Slow" carry the label slow. UNSANITIZED: tests that run the same code once more, for
# its bits or its statistics, and are left out under AddressSanitizer.
function(baltoro_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;LINK;UNSANITIZED" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_LINK PREPEND baltoro_)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} baltoro_options baltoro_test_paths GTest::gtest GTest::gmock
    GTest::gtest_main ${BALTORO_FMT})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  # Test bodies run once: optimising them costs CI minutes and gains nothing.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O0>)
  target_precompile_headers(${name} REUSE_FROM baltoro_test_headers)
  if(BALTORO_SANITIZE MATCHES "address" OR CMAKE_CROSSCOMPILING)
    # A process starts slowly there: not one a test, but two a binary.
    set(unsanitized "")
    if(BALTORO_SANITIZE)
      list(JOIN ARG_UNSANITIZED ":" unsanitized)
    endif()
    foreach(shard 0 1)
      add_test(NAME ${name}.${shard} COMMAND ${name} --gtest_brief=1 --gtest_filter=-Slow*:${unsanitized})
      set_tests_properties(${name}.${shard} PROPERTIES LABELS ${ARG_LABEL}
        ENVIRONMENT "GTEST_TOTAL_SHARDS=2;GTEST_SHARD_INDEX=${shard}")
    endforeach()
    add_test(NAME ${name}.slow COMMAND ${name} --gtest_brief=1 --gtest_filter=Slow*)
    set_tests_properties(${name}.slow PROPERTIES LABELS slow)
  else()
    gtest_discover_tests(${name} TEST_FILTER -Slow* PROPERTIES LABELS ${ARG_LABEL} DISCOVERY_TIMEOUT 60)
    gtest_discover_tests(${name} TEST_FILTER Slow* PROPERTIES LABELS slow DISCOVERY_TIMEOUT 60)
  endif()
endfunction()
