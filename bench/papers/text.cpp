// Texts of figures and of the registry of experiments.
#include <fmt/format.h>

#include <algorithm>

#include "bench/papers/paper.hpp"

namespace tandem::bench {
namespace {

std::string text_of(const Json& x) { return x.is_string() ? x.get<std::string>() : x.dump(); }

std::string cell(const Json& series, const std::string& x) {
  for (const Json& p : series["points"]) {
    if (text_of(p["x"]) != x) continue;
    const double y = p["y"];
    if (!p.contains("low")) return fmt::format("{:g}", y);
    return fmt::format("{:.4g} ({:.4g}-{:.4g})", y, p["low"].get<double>(), p["high"].get<double>());
  }
  return "-";
}

// Its name, and its unit if that is not the figure's.
std::string heading_of(const Json& series) {
  const std::string name = series["name"];
  return series.contains("unit") ? fmt::format("{} ({})", name, series["unit"].get<std::string>()) : name;
}

}  // namespace

std::string figure_label(std::string_view figure) {
  return figure.starts_with("table-") ? fmt::format("Table {}", figure.substr(6)) : fmt::format("Fig. {}", figure);
}

std::string figure_text(const Json& figure, bool is_quick) {
  std::string text =
      fmt::format("{} {}: {}\n{} ({}), by {}\nThe paper's machine: {}\n\n", figure["paper"].get<std::string>(),
                  figure_label(figure["figure"].get<std::string>()), figure["title"].get<std::string>(),
                  figure["y"].get<std::string>(), figure["unit"].get<std::string>(), figure["x"].get<std::string>(),
                  figure["machine"].get<std::string>());
  if (is_quick) text += "Measured with --quick: small tables and short turns, not for figures.\n\n";
  std::vector<std::string> xs;
  bool by_number = true;  // all of them
  std::string heading = "| |", rule = "|---|";
  for (const Json& series : figure["series"]) {
    if (series["points"].empty()) continue;
    heading += fmt::format(" {} |", heading_of(series));
    rule += "---:|";
    for (const Json& p : series["points"]) {
      if (const std::string x = text_of(p["x"]); std::ranges::find(xs, x) == xs.end()) {
        xs.push_back(x);
        by_number = by_number && p["x"].is_number();
      }
    }
  }
  if (by_number) std::ranges::sort(xs, {}, [](const std::string& x) { return std::stod(x); });
  text += heading + '\n' + rule + '\n';
  for (const std::string& x : xs) {
    text += fmt::format("| {} |", x);
    for (const Json& series : figure["series"]) {
      if (!series["points"].empty()) text += fmt::format(" {} |", cell(series, x));
    }
    text += '\n';
  }
  text += '\n';
  for (const Json& series : figure["series"])
    text += fmt::format("{}: {}\n", series["name"].get<std::string>(), series["source"].get<std::string>());
  for (const Json& what : figure["missing"]) text += fmt::format("missing: {}\n", what.get<std::string>());
  return text;
}

std::string paper_text(const Paper& paper) {
  std::string text = fmt::format("{}: {}\n  measured on {}\n", paper.name, paper.title, paper.machine);
  for (const Experiment& e : paper.experiments) {
    text += fmt::format("  {:<9} {:<8} {} ({})\n", e.figure, e.run != nullptr ? "runs" : "missing", e.title, e.section);
    if (!e.missing.empty()) text += fmt::format("  {:<18} {}: {}\n", "", e.run != nullptr ? "but" : "why", e.missing);
  }
  return text;
}

std::string papers_text(std::span<const Paper> papers) {
  std::string text;
  for (const Paper& paper : papers) text += paper_text(paper) + '\n';
  return text;
}

}  // namespace tandem::bench
