#include "monitor/page.hpp"

#include <page_texts.hpp>  // the build makes it

namespace tandem::monitor {

std::optional<PageFile> page_file(std::string_view path) noexcept {
  if (path == "/" || path == "/index.html") return PageFile{"text/html; charset=utf-8", page_text::index_html};
  if (path == "/style.css") return PageFile{"text/css; charset=utf-8", page_text::style_css};
  if (path == "/script.js") return PageFile{"text/javascript; charset=utf-8", page_text::script_js};
  if (path == "/charts.js") return PageFile{"text/javascript; charset=utf-8", page_text::charts_js};
  return std::nullopt;
}

}  // namespace tandem::monitor
