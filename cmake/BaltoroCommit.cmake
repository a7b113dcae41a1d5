# Run at every build with -DSOURCE_DIR and -DOUT: writes OUT, a C++ file with the name of the commit. An unchanged file is left alone.
find_package(Git QUIET)
set(commit unknown)
if(Git_FOUND)
  # Without optional locks: another git may be at work in the same folder.
  execute_process(COMMAND ${CMAKE_COMMAND} -E env GIT_OPTIONAL_LOCKS=0 ${GIT_EXECUTABLE} describe --always --dirty --abbrev=12 --exclude=*
    WORKING_DIRECTORY ${SOURCE_DIR} OUTPUT_VARIABLE described OUTPUT_STRIP_TRAILING_WHITESPACE
    RESULT_VARIABLE status ERROR_QUIET)
  if(status EQUAL 0)
    set(commit ${described})
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} CONTENT [[
#include "measure/commit.h"

namespace baltoro {

const char* commit() noexcept { return "@commit@"; }

}  // namespace baltoro
]] @ONLY)
