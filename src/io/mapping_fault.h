// A mapped file that shrinks, or whose disk fails, ends the process by the signal SIGBUS, without a
// word. This finds the word.
#pragma once

namespace baltoro {

// From now on such a fault writes "baltoro: error: FILE: ..." to standard error and ends the process
// with status 1; any other SIGBUS ends it as before. For programs, not for libraries: a process has
// one handler.
void report_mapping_faults();

}  // namespace baltoro
