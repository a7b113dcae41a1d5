# baltoro_layer(NAME SOURCES... DEPENDS layers... LIBRARIES external...) makes the static library of one row of the layer table.
# Includes are written from src/ ("core/dtype.h") and include/ ("baltoro/engine.h").

add_library(baltoro_options INTERFACE)
target_compile_options(baltoro_options INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -ffp-contract=off)
target_include_directories(baltoro_options INTERFACE
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src>)
if(BALTORO_SANITIZE)
  target_compile_options(baltoro_options INTERFACE -fsanitize=${BALTORO_SANITIZE} -fno-omit-frame-pointer
    -fno-sanitize-recover=all)
  target_link_options(baltoro_options INTERFACE -fsanitize=${BALTORO_SANITIZE})
endif()
if(BALTORO_TRACE)
  target_compile_definitions(baltoro_options INTERFACE BALTORO_TRACE=1)
endif()
if(BALTORO_STATIC)
  target_link_options(baltoro_options INTERFACE -static-libstdc++ -static-libgcc)
endif()

function(baltoro_layer name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;LIBRARIES" ${ARGN})
  add_library(baltoro_${name} STATIC ${ARG_SOURCES})
  target_include_directories(baltoro_${name} PUBLIC
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:include>)
  list(TRANSFORM ARG_DEPENDS PREPEND baltoro_)
  target_link_libraries(baltoro_${name} PUBLIC ${ARG_DEPENDS} PRIVATE ${ARG_LIBRARIES}
    $<BUILD_INTERFACE:baltoro_options>)
endfunction()

# baltoro_test(NAME LABEL label SOURCES... LINK layers...) makes one GoogleTest binary whose tests carry the label; those whose
# name begins with "Slow" carry the label slow.
function(baltoro_test name)
  cmake_parse_arguments(ARG "" "LABEL" "SOURCES;LINK" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  list(TRANSFORM ARG_LINK PREPEND baltoro_)
  target_link_libraries(${name} PRIVATE ${ARG_LINK} baltoro_options GTest::gtest GTest::gmock GTest::gtest_main
    fmt::fmt)
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests)
  # Test bodies run once: optimising them costs CI minutes and gains nothing.
  target_compile_options(${name} PRIVATE $<$<CONFIG:Release,RelWithDebInfo>:-O1>)
  target_compile_definitions(${name} PRIVATE BALTORO_TEST_DATA="${PROJECT_SOURCE_DIR}/tests/data"
    BALTORO_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  gtest_discover_tests(${name} TEST_FILTER -Slow* PROPERTIES LABELS ${ARG_LABEL} DISCOVERY_TIMEOUT 60)
  gtest_discover_tests(${name} TEST_FILTER Slow* PROPERTIES LABELS slow DISCOVERY_TIMEOUT 60)
endfunction()
