// A comparison's document as Markdown tables, below its headline.
#pragma once
#include <string>

#include "bench/common/document.hpp"

namespace tandem::bench {

std::string render_tables(const Json& document);

}  // namespace tandem::bench
