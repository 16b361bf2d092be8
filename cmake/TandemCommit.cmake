# cmake -D SOURCE=FOLDER -D VERSION=X -D COMMIT=ID -D OUT=FILE -P TandemCommit.cmake: a header with the version and the
# commit that is built: COMMIT if it is given, else git's ("+" after it: the tree was changed), else "unknown". Runs at
# every build and writes only what differs, so that nothing is compiled again for it.
cmake_minimum_required(VERSION 3.25)
set(commit "${COMMIT}")
if(NOT commit)
  set(commit unknown)
  find_program(GIT git)
  if(GIT AND EXISTS "${SOURCE}/.git")
    execute_process(COMMAND ${GIT} -C ${SOURCE} rev-parse --short=12 HEAD
      OUTPUT_VARIABLE head OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
    if(NOT failed)
      execute_process(COMMAND ${GIT} -C ${SOURCE} --no-optional-locks status --porcelain --untracked-files=no
        OUTPUT_VARIABLE changes ERROR_QUIET)
      set(commit ${head})
      if(changes)
        string(APPEND commit "+")
      endif()
    endif()
  endif()
endif()
file(CONFIGURE OUTPUT ${OUT} @ONLY CONTENT "// Made by cmake/TandemCommit.cmake.
#pragma once
#include <string_view>

namespace tandem::bench::build {

inline constexpr std::string_view version = \"@VERSION@\";
inline constexpr std::string_view commit = \"@commit@\";

}  // namespace tandem::bench::build
")
