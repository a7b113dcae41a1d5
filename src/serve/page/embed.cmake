# Puts the files of the chat page into the program: ours from this folder, libraries from installed Debian packages. The
# assembler reads them (.incbin), so they cost no compile time. Sets BALTORO_PAGE_SOURCES.
set(page_dir ${CMAKE_CURRENT_LIST_DIR})
set(page_lib ${CMAKE_CURRENT_BINARY_DIR}/page)
set(page_files index.html page.css favicon.svg
  announcer.js answer_view.js api.js app.js calculator.js clipboard.js code_block.js composer.js conversation.js dom.js entities.js
  format.js generation.js key_dialog.js main.js markdown.js markdown_view.js maths.js menu.js question_view.js settings.js settings_panel.js
  shortcuts.js sidebar.js sse.js store.js suggestions.js theme.js theme_switch.js toast.js tool_card.js tools.js transcript.js
  turn_stream.js)
list(TRANSFORM page_files PREPEND ${page_dir}/ OUTPUT_VARIABLE page_paths)
list(APPEND page_files notice.txt)
list(APPEND page_paths ${PROJECT_SOURCE_DIR}/NOTICE)

# page_library(VARIABLE PACKAGE PATH) finds a file of an architecture-independent package.
function(page_library variable package path)
  find_file(${variable} NAMES ${path} PATHS /usr/share NO_DEFAULT_PATH NO_CMAKE_FIND_ROOT_PATH)
  mark_as_advanced(${variable})
  if(NOT ${variable})
    message(FATAL_ERROR "The chat page needs /usr/share/${path} of the Debian package ${package}.\n"
      "Run scripts/deps.sh run, or give the file with -D${variable}=PATH.")
  endif()
endfunction()

page_library(BALTORO_PAGE_MARKED node-marked nodejs/marked/lib/marked.esm.js)
page_library(BALTORO_PAGE_KATEX libjs-katex javascript/katex/katex.js)
page_library(BALTORO_PAGE_KATEX_CSS libjs-katex javascript/katex/katex.min.css)
page_library(BALTORO_PAGE_KATEX_FONT fonts-katex fonts/truetype/katex/KaTeX_Main-Regular.woff2)
page_library(BALTORO_PAGE_HIGHLIGHT node-highlight.js nodejs/highlight.js/lib/highlight.js)
list(APPEND page_files lib/marked.js lib/katex.js lib/katex.css lib/highlight.js)
list(APPEND page_paths ${BALTORO_PAGE_MARKED} ${BALTORO_PAGE_KATEX} ${BALTORO_PAGE_KATEX_CSS} ${page_lib}/highlight.js)

get_filename_component(page_fonts ${BALTORO_PAGE_KATEX_FONT} DIRECTORY)
file(GLOB page_font_paths ${page_fonts}/KaTeX_*.woff2)
foreach(path IN LISTS page_font_paths)
  get_filename_component(name ${path} NAME)
  list(APPEND page_files lib/fonts/${name})
  list(APPEND page_paths ${path})
endforeach()

# The core of highlight.js and the languages that answers are likely to hold, as one script; each is a CommonJS module.
get_filename_component(page_languages ${BALTORO_PAGE_HIGHLIGHT} DIRECTORY)
file(READ ${BALTORO_PAGE_HIGHLIGHT} text)
set(script "{\nconst module = {};\n${text}\n}\n")
foreach(language bash clojure cmake cpp cs css dart diff dockerfile elixir erlang go haskell ini java javascript json julia kotlin
    lisp llvm lua makefile markdown matlab nginx objectivec ocaml perl php powershell python r ruby rust scala scheme scss shell
    sql swift tex typescript x86asm xml yaml)
  file(READ ${page_languages}/languages/${language}.js text)
  string(APPEND script "{\nconst module = {};\n${text}\nhljs.registerLanguage(\"${language}\", module.exports);\n}\n")
endforeach()
file(CONFIGURE OUTPUT ${page_lib}/highlight.js CONTENT "@script@" @ONLY)

set(data "// Written by src/serve/page/embed.cmake.\n#include \"serve/page/page_data.h\"\n\n")
set(list "")
set(index 0)
foreach(name path IN ZIP_LISTS page_files page_paths)
  set(symbol baltoro_page_${index})
  # Hidden, not local: GNU ld for aarch64 drops the offset of a local symbol that is reached through the table of addresses.
  string(APPEND data "extern \"C\" [[gnu::visibility(\"hidden\")]] const char ${symbol}[], ${symbol}_end[];\n"
    "asm(\".section .rodata\\n.globl ${symbol}, ${symbol}_end\\n${symbol}: .incbin \\\"${path}\\\"\\n${symbol}_end:\\n.byte 0\\n.previous\\n\");\n")
  string(APPEND list "    {\"${name}\", {${symbol}, static_cast<std::size_t>(${symbol}_end - ${symbol})}},\n")
  math(EXPR index "${index} + 1")
endforeach()
string(APPEND data "\nnamespace baltoro::serve {\n\nstd::span<const EmbeddedFile> embedded_files() {\n"
  "  static const EmbeddedFile files[] = {\n${list}  };\n  return files;\n}\n\n}  // namespace baltoro::serve\n")
file(CONFIGURE OUTPUT ${page_lib}/page_data.cc CONTENT "@data@" @ONLY)

set_source_files_properties(${page_lib}/page_data.cc PROPERTIES OBJECT_DEPENDS "${page_paths}")
set(BALTORO_PAGE_SOURCES ${page_dir}/page.cc ${page_lib}/page_data.cc)
