// The live page's files, embedded in the program by the build (cmake/TandemPage.cmake, from src/monitor/page/).
#pragma once
#include <optional>
#include <string_view>

namespace tandem::monitor {

struct PageFile {
  std::string_view type, text;
};

std::optional<PageFile> page_file(std::string_view path) noexcept;  // nullopt: no such file

}  // namespace tandem::monitor
