#include "bench/papers/paper.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <stdexcept>

#include "bench/papers/figures_program.hpp"
#include "bench/papers/kvcg.hpp"
#include "bench/papers/mega_kv.hpp"

namespace tandem::bench {
namespace {

struct Contents {
  std::string_view paper;
  std::vector<std::string_view> figures;  // all with measurements, in the papers' texts
};

// Every figure and table with measurements. Omitted are drawings, lists of hardware, and DIDO's list of notations.
const std::vector<Contents>& contents() {
  static const std::vector<Contents> all = {
      {"mega-kv",
       {"1", "2", "6", "7", "8", "10", "table-2", "12", "13", "table-3", "14", "15", "16", "17", "18", "19", "20"}},
      {"dido", {"4", "5", "6", "9", "10", "11", "12", "13", "14", "15", "16", "17", "18", "19", "20", "21"}},
      {"memcachedgpu", {"2", "table-3", "3", "4", "5", "table-4", "6", "7", "table-5", "table-6"}},
      {"kvcg", {"table-1", "3a", "3b", "3c", "4", "5", "6", "7"}},
      {"heterokv", {"table-1", "table-2", "4", "5"}},
  };
  return all;
}

TEST(Papers, EveryFigureRunsOrSaysWhatIsMissing) {
  ASSERT_EQ(all_papers().size(), contents().size());
  for (const Contents& expected : contents()) {
    const Paper& paper = find_paper(expected.paper);
    EXPECT_FALSE(paper.machine.empty());
    std::set<std::string_view> found;
    for (const Experiment& e : paper.experiments) {
      EXPECT_TRUE(found.insert(e.figure).second) << e.figure;
      EXPECT_FALSE(e.title.empty() || e.section.empty()) << e.figure;
      EXPECT_TRUE(e.run != nullptr || e.missing.find("need") != std::string_view::npos)
          << paper.name << " " << e.figure;
    }
    EXPECT_EQ(found, std::set<std::string_view>(expected.figures.begin(), expected.figures.end())) << paper.name;
  }
}

TEST(Papers, TheOnesThatRunOnAProcessorDo) {
  PaperOptions options;
  options.gpu = "off";
  std::set<std::string> running;
  for (const Paper& paper : all_papers()) {
    for (const Experiment& e : paper.experiments) {
      if (why_not(e, options).empty()) running.insert(std::string(paper.name) + " " + std::string(e.figure));
    }
  }
  const std::set<std::string> expected = {"mega-kv 1",
                                          "mega-kv 2",
                                          "mega-kv 13",
                                          "mega-kv table-3",
                                          "dido 11",
                                          "dido 16",
                                          "dido 20",
                                          "dido 21",
                                          "memcachedgpu 2",
                                          "memcachedgpu table-3",
                                          "memcachedgpu 3",
                                          "memcachedgpu table-4",
                                          "memcachedgpu table-5",
                                          "memcachedgpu table-6",
                                          "kvcg 3a",
                                          "kvcg 3c",
                                          "kvcg 5",
                                          "kvcg 6",
                                          "heterokv table-2",
                                          "heterokv 4",
                                          "heterokv 5"};
  EXPECT_EQ(running, expected);
}

TEST(Papers, AreFoundByName) {
  for (const char* name : {"13", "fig13", "Fig. 13", "figure-13", "FIGURE 13"})
    EXPECT_EQ(find_experiment(mega_kv(), name).figure, "13") << name;
  for (const char* name : {"table-3", "table3", "Table 3"})
    EXPECT_EQ(find_experiment(mega_kv(), name).figure, "table-3") << name;
  EXPECT_EQ(find_experiment(kvcg(), "3A").figure, "3a");
  try {
    static_cast<void>(find_paper("mica"));
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find("mega-kv, dido, memcachedgpu, kvcg, heterokv"), std::string::npos);
  }
  try {
    static_cast<void>(find_experiment(dido(), "99"));
    FAIL();
  } catch (const std::invalid_argument& e) {
    EXPECT_NE(std::string(e.what()).find("11, 12, 13"), std::string::npos);
  }
}

TEST(Papers, TheListHasThemAll) {
  const std::string text = papers_text(all_papers());
  for (const Paper& paper : all_papers()) {
    EXPECT_NE(text.find(paper.machine), std::string::npos);
    for (const Experiment& e : paper.experiments) {
      EXPECT_NE(text.find(e.title), std::string::npos) << e.title;
      EXPECT_NE(text.find(e.missing), std::string::npos) << e.title;
    }
  }
}

struct Named {
  const Paper* paper;
  const Experiment* experiment;
};

std::vector<Named> runnable() {
  PaperOptions options;
  options.gpu = "sim";
  std::vector<Named> all;
  for (const Paper& paper : all_papers()) {
    for (const Experiment& e : paper.experiments) {
      if (why_not(e, options).empty()) all.push_back({&paper, &e});
    }
  }
  return all;
}

// The line of a figure's text that says where the paper's side of it comes from.
std::string_view source_line(std::string_view figure) {
  static const std::map<std::string_view, std::string_view> lines = {
      {"mega-kv 1", "paper: index operations of MICA: section 2.1.2, text: \"about 75 %\""},
      {"mega-kv 2", "paper: section 2.1.2, text"},
      {"mega-kv 6", "paper: by threads and cells of a bucket: figure 6, a plot"},
      {"mega-kv 7", "paper: speedup by blocks: figure 7, a plot; section 4.3.2"},
      {"mega-kv 8", "paper: Search, peak with large batches: section 4.3.3, text"},
      {"mega-kv 10", "paper: Search, fitted line: "},
      {"mega-kv 12", "paper: not delayed: "},
      {"mega-kv 13", "paper: Mega-KV and MICA: figure 13, a plot; section 8.3"},
      {"mega-kv table-3", "paper: Mega-KV: table 3"},
      {"mega-kv 16", "paper: four nodes, 8 GPUs, 95 % GET: section 8.7, text"},
      {"mega-kv 17", "paper: the longest response, 3C: section 5.1, text"},
      {"dido 9", "paper: error: section V-B, text"},
      {"dido 10", "paper: chosen best of 24: section V-B, text"},
      {"dido 11", "paper: DIDO and Mega-KV (Coupled): figure 11, a plot; section V-C"},
      {"dido 16", "paper: DIDO and Mega-KV (Discrete): figure 16, a plot; section V-E"},
      {"dido 20", "paper: DIDO: figure 20, a plot; section V-F"},
      {"dido 21", "paper: DIDO over Mega-KV (Coupled): section V-F, text"},
      {"memcachedgpu 2", "paper: 1 way: section 5.2, text"},
      {"memcachedgpu table-3", "paper: Tesla K20c, online at 10 GbE: table 3"},
      {"memcachedgpu 3", "paper: Tesla K20c, GNoM, p95, less than: section 5.3"},
      {"memcachedgpu 4", "paper: Tesla K20c, GPU alone, the most: section 5.3"},
      {"memcachedgpu 5", "paper: Tesla K20c, throughput by the theoretical one of a mix, at least: section 5.3"},
      {"memcachedgpu table-4", "paper: Tesla K20c, GETs: table 4"},
      {"memcachedgpu 6", "paper: Tesla K20c, before the task, less than: section 5.4"},
      {"memcachedgpu 7", "paper: Tesla K20c, task, 1 kernel of 256 blocks: section 5.4"},
      {"memcachedgpu table-5", "paper: throughput: table 5"},
      {"memcachedgpu table-6", "paper: compared platforms: table 6"},
      {"kvcg 3a", "paper: KVCG: figure 3a, a plot"},
      {"kvcg 3b", "paper: KVCG: hot mean: section 8.1, text"},
      {"kvcg 3c", "paper: KVCG: figure 3c, a plot"},
      {"kvcg 4", "paper: hot cache: figure 4, a plot"},
      {"kvcg 7", "paper: cold, settled, below: section 8.4, text"},
      {"kvcg 5", "paper: KVCG, KVC, KVG, Mega-KV, MICA: figure 5, a plot"},
      {"kvcg 6", "paper: KVCG, KVC, KVG, Mega-KV, MICA: figure 6, a plot"},
      {"heterokv table-2", "paper: HeteroKV (FPGA, 20 cores): table II"},
      {"heterokv 4", "paper: HeteroKV: figure 4, a plot; section IV-C"},
      {"heterokv 5", "paper: HeteroKV, GET-heavy: section IV-C, text"},
  };
  const auto found = lines.find(figure);
  return found == lines.end() ? std::string_view() : found->second;
}

// Series that a figure of KVCG's has with a device in software: its systems, and latencies of both classes of keys.
std::vector<std::string> series_of_kvcg(std::string_view figure) {
  const std::string sim = " (simulated device)";
  if (figure == "4") return {"theta 0.5" + sim, "theta 0.99" + sim};
  if (figure == "7") return {"hot" + sim, "cold" + sim, "hot share" + sim};
  std::vector<std::string> names, with_hot = {"KVCG, T1"};
  if (figure == "3b") with_hot = {"KVCG, the most popular keys given"};
  if (figure == "6") with_hot.emplace_back("KVCG, T2");
  for (const std::string& name : with_hot) {
    names.push_back(name + sim);
    for (const char* const latency : {"hot mean", "hot p99", "cold mean", "cold p99", "hot share"})
      names.push_back(fmt::format("{}{}: {}", name, sim, latency));
  }
  if (figure == "3b") return names;
  for (const std::string& name : {std::string("KVC"), "KVG" + sim, "Mega-KV" + sim})
    names.insert(names.end(), {name, name + ": mean", name + ": p99"});
  names.insert(names.end(), {"KVCG" + sim, "KVCG" + sim + ": cold mean", "KVCG" + sim + ": hot share"});
  return names;
}

// Keys of a run's result that docs/bench-format.md does not name, by which `tandem bench report` would skip the
// document.
std::string undocumented(const Json& value) {
  static const std::string page = [] {
    std::ifstream file("docs/bench-format.md");
    return std::string(std::istreambuf_iterator<char>(file), {});
  }();
  std::string found;
  if (value.is_array()) {
    for (const Json& one : value) found += undocumented(one);
  } else if (value.is_object()) {
    for (const auto& [key, inner] : value.items()) {
      const bool is_named = page.find(fmt::format("`{}`", key)) != std::string::npos ||
                            page.find(fmt::format("\"{}\"", key)) != std::string::npos;
      found += (is_named ? "" : key + " ") + (key == "other" ? "" : undocumented(inner));
    }
  }
  return found;
}

class Runs : public testing::TestWithParam<Named> {};

TEST_P(Runs, QuicklyAndLeavesAFigureThatItsRunsExplain) {
  const auto [paper, experiment] = GetParam();
  PaperOptions options;
  options.quick = true;
  options.threads = {1};
  options.gpu = "sim";
  Json document{{"format", document_format}, {"notes", Json::array()}, {"runs", Json::array()}};
  run_experiment(*paper, *experiment, options, document);
  EXPECT_EQ(errors_of(document), "");
  for (const Json& one : document["runs"]) EXPECT_EQ(undocumented(one["result"]), "") << one["cell"];
  ASSERT_EQ(document["figures"].size(), 1U);
  const Json& figure = document["figures"][0];
  EXPECT_EQ(figure["paper"], paper->name);
  EXPECT_EQ(figure["figure"], experiment->figure);
  EXPECT_FALSE(figure["unit"].get<std::string>().empty());
  std::size_t measured = 0, of_paper = 0;
  for (const Json& series : figure["series"]) {
    const std::string name = series["name"], source = series["source"];
    if (name.starts_with("paper")) {
      ++of_paper;
      EXPECT_TRUE(source.find("section") != std::string::npos || source.find("table") != std::string::npos ||
                  source.find("figure") != std::string::npos)
          << source;
      EXPECT_EQ(series["points"].empty(), source.find("not given in numbers") != std::string::npos) << name;
      continue;
    }
    EXPECT_TRUE(source.starts_with("tandem bench paper " + std::string(paper->name))) << source;
    ASSERT_FALSE(series["points"].empty()) << name;
    for (const Json& point : series["points"]) {
      ++measured;
      EXPECT_GE(point["y"].get<double>(), 0) << name;
      EXPECT_LE(point["low"].get<double>(), point["y"].get<double>());
      EXPECT_GE(point["high"].get<double>(), point["y"].get<double>());
      ASSERT_FALSE(point["runs"].empty());
      for (const Json& run : point["runs"]) {
        ASSERT_LT(run.get<std::size_t>(), document["runs"].size());
        EXPECT_GT(document["runs"][run.get<std::size_t>()]["result"]["ops_per_s"].get<double>(), 0);
        EXPECT_TRUE(
            document["runs"][run.get<std::size_t>()]["command"].get<std::string>().starts_with("tandem bench "));
      }
    }
  }
  // If a busy machine stretches launches to a second, no cycle of the paper is long enough.
  const bool may_miss = experiment->figure == "12" && !figure["missing"].empty();
  EXPECT_TRUE(measured > 0 || may_miss);
  EXPECT_GT(of_paper, 0U);
  const std::string text = figure_text(figure, true), name = fmt::format("{} {}", paper->name, experiment->figure);
  EXPECT_TRUE(
      text.starts_with(fmt::format("{} {}: {}\n", paper->name, figure_label(experiment->figure), experiment->title)))
      << text;
  ASSERT_FALSE(source_line(name).empty()) << name;
  EXPECT_NE(text.find(fmt::format("\n{}", source_line(name))), std::string::npos) << text;
  EXPECT_NE(text.find(paper->machine), std::string::npos);
  EXPECT_NE(text.find("\nMeasured with --quick: small tables and short turns, not for figures.\n"), std::string::npos);
  EXPECT_EQ(figure_text(figure, false).find("not for figures"), std::string::npos);
  // A table and a plot have one unit on an axis, and a name for each series.
  std::set<std::string> names;
  for (const Json& series : figure["series"]) {
    EXPECT_TRUE(names.insert(series["name"]).second) << series["name"];
    const std::string unit = series.value("unit", figure["unit"].get<std::string>());
    EXPECT_EQ(unit.find(','), std::string::npos) << unit;
    EXPECT_EQ(unit.find(" and "), std::string::npos) << unit;
    EXPECT_NE(unit, "as named");
    if (!series.contains("unit")) continue;
    const std::string heading = fmt::format("{} ({}) |", series["name"].get<std::string>(), unit);
    EXPECT_NE(text.find(heading), std::string::npos) << text;
  }
  if (paper->name == "kvcg") {
    for (const std::string& series : series_of_kvcg(experiment->figure)) EXPECT_TRUE(names.contains(series)) << series;
  }
  for (const Json& what : figure["missing"])
    EXPECT_NE(text.find("missing: " + what.get<std::string>()), std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(All, Runs, testing::ValuesIn(runnable()), [](const auto& param) {
  std::string name = std::string(param.param.paper->name) + "_" + std::string(param.param.experiment->figure);
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
});

TEST(Papers, TheSharesOfFigure1AddUp) {
  PaperOptions options;
  options.quick = true;
  Json document{{"format", document_format}, {"notes", Json::array()}, {"runs", Json::array()}};
  run_experiment(mega_kv(), find_experiment(mega_kv(), "1"), options, document);
  const Json& series = document["figures"][0]["series"];
  for (std::size_t set = 0; set < 4; ++set) {
    double sum = 0;
    for (const Json& part : series) {
      if (!part["name"].get<std::string>().starts_with("paper")) sum += part["points"][set]["y"].get<double>();
    }
    EXPECT_NEAR(sum, 100, 1e-6);
  }
}

// A run without further examination of its document.
Json drawn(const Paper& paper, std::string_view figure, void (*draw)(PaperRun&, const std::vector<Json>&),
           const std::vector<Json>& lines) {
  Json document{{"runs", Json::array()}};
  const PaperOptions options;
  PaperRun run(paper, find_experiment(paper, figure), options, document);
  draw(run, lines);
  Json all = run.take_figure();
  all["runs"] = document["runs"];
  return all;
}

constexpr std::string_view figures_output =
    R"({"program":"cuckoo_figures_bench","gpu":"x","multiprocessors":132,"cells":134217728}
{"figure":"6","time":"kernel","jobs":60000,"streams":1,"cells_per_bucket":8,"threads":1,"queries":"one a unit","us":20,"us_least":19,"us_greatest":30}
{"figure":"6","time":"kernel","jobs":60000,"streams":1,"cells_per_bucket":8,"threads":8,"queries":"one a unit","us":40,"us_least":39,"us_greatest":50}
{"figure":"6","left_out":"buckets of 4, 16 and 32 cells"}
{"figure":"7","method":"partitions","partitions":2,"blocks":2,"jobs":1000,"load":0.80,"us":10,"us_least":5,"us_greatest":20,"mops":100.0}
{"figure":"8","operation":"insert","batch":1000,"streams":1,"transfers":"copies","load":0.80,"us":10,"us_least":5,"us_greatest":20,"mops":100.0}
{"figure":"8","operation":"insert","batch":20000,"streams":7,"transfers":"copies","load":0.80,"us":50,"us_least":40,"us_greatest":80,"mops":400.0}
{"verified":true,"seconds":1.0}
)";

std::vector<Json> lines_of(std::string_view text, std::string_view figure) {
  return figure_lines(text, figure, "a program");
}

TEST(MegaKvKernels, AreDrawnFromTheProgramsLines) {
  using namespace mega_kv_paper;
  const Json six = drawn(mega_kv(), "6", draw_figure_6, lines_of(figures_output, "6"));
  ASSERT_EQ(six["series"].size(), 2U);
  EXPECT_EQ(six["series"][0]["name"], "one a unit, kernel, 1 streams");
  ASSERT_EQ(six["series"][0]["points"].size(), 2U);
  EXPECT_EQ(six["series"][0]["points"][1], Json({{"x", 8}, {"y", 40.0}, {"low", 39.0}, {"high", 50.0}, {"runs", {1}}}));
  EXPECT_EQ(six["runs"][0]["result"]["ops_per_s"], 3e9);
  EXPECT_EQ(six["runs"][0]["settings"]["threads"], 1);
  const Json seven = drawn(mega_kv(), "7", draw_figure_7, lines_of(figures_output, "7"));
  EXPECT_EQ(seven["series"][0]["points"][0],
            Json({{"x", 2}, {"y", 100.0}, {"low", 50.0}, {"high", 200.0}, {"runs", {0}}}));
  const Json eight = drawn(mega_kv(), "8", draw_figure_8, lines_of(figures_output, "8"));
  ASSERT_EQ(eight["series"].size(), 5U);
  EXPECT_EQ(eight["series"][1]["name"], "insert, 7 streams, copies, load 0.8");
  EXPECT_EQ(eight["series"][1]["points"][0]["y"], 400.0);
  EXPECT_EQ(eight["series"][2]["points"][0], Json({{"x", 20000}, {"y", 303.7}}));
}

TEST(KvcgKernels, AreDrawnFromTheProgramsLines) {
  constexpr std::string_view output =
      R"({"figure":"table-1","operation":"GET","table":"slab_list","locks":"locks","warps":1,"ops":1000,"us":10,"us_least":5,"us_greatest":20,"mops":100.0}
{"figure":"table-1","operation":"GET","table":"slab_list","locks":"no locks","warps":4,"ops":1000,"us":5,"us_least":5,"us_greatest":5,"mops":200.0}
{"figure":"table-1","operation":"PUT","table":"slab_list","locks":"locks","warps":1,"ops":3000,"us":10,"us_least":10,"us_greatest":10,"mops":300.0}
{"verified":true,"seconds":1.0}
)";
  const Json table = drawn(kvcg(), "table-1", kvcg_paper::draw_table_1, lines_of(output, "table-1"));
  ASSERT_EQ(table["series"].size(), 4U);
  EXPECT_EQ(table["series"][0]["name"], "slab_list, locks, 1 warp a block");
  EXPECT_EQ(table["series"][0]["points"][0],
            Json({{"x", "GET"}, {"y", 100.0}, {"low", 50.0}, {"high", 200.0}, {"runs", {0}}}));
  EXPECT_EQ(table["series"][0]["points"][1]["y"], 300.0);
  EXPECT_EQ(table["series"][1]["name"], "slab_list, no locks, 4 warps a block");
  EXPECT_EQ(table["series"][3]["points"][1], Json({{"x", "PUT"}, {"y", 27.3}}));
  EXPECT_EQ(table["runs"][2]["cell"], "kvcg Table 1 PUT slab_list locks 1 3000");
}

TEST(MegaKvKernels, AreNotDrawnFromWhatWasNotChecked) {
  std::string unchecked(figures_output);
  unchecked.resize(unchecked.find("{\"verified\""));
  EXPECT_THROW(static_cast<void>(lines_of(unchecked, "6")), std::runtime_error);
  EXPECT_THROW(static_cast<void>(lines_of(figures_output, "9")), std::runtime_error);
  EXPECT_THROW(static_cast<void>(lines_of("", "6")), std::runtime_error);
  EXPECT_THROW(static_cast<void>(lines_of(std::string(figures_output) + "CUDA error\n", "6")), std::runtime_error);
  EXPECT_THROW(static_cast<void>(lines_of(std::string(figures_output) + "7\n", "6")), std::runtime_error);
}

// The text's statements on figure 12 follow from the lines that it gives.
TEST(Papers, Figure12HasThePapersCurve) {
  PaperOptions options;
  options.quick = true;
  options.gpu = "sim";
  Json document{{"format", document_format}, {"notes", Json::array()}, {"runs", Json::array()}};
  run_experiment(mega_kv(), find_experiment(mega_kv(), "12"), options, document);
  const auto paper = [&](const char* name, double cycle_us) {
    for (const Json& series : document["figures"][0]["series"]) {
      if (series["name"] != name) continue;
      for (const Json& point : series["points"]) {
        if (point["x"] == cycle_us) return point["y"].get<double>();
      }
    }
    return -1.0;
  };
  EXPECT_EQ(paper("paper: delayed, n = 2", 80), -1);  // no cycle of that length works
  EXPECT_GT(paper("paper: delayed, n = 2", 100), 0);
  EXPECT_EQ(paper("paper: not delayed", 160), -1);
  EXPECT_GT(paper("paper: not delayed", 200), 0);
  EXPECT_NEAR(paper("paper: delayed, n = 2", 320), (2 * 320 - 2 * 22.1 - 144.5) / (2 * 320 * 5.915e-3), 1e-6);
}

TEST(Papers, WithoutAGpuSayWhatTheyNeed) {
  PaperOptions options;
  options.gpu = "off";
  Json document{{"runs", Json::array()}};
  for (const char* figure : {"6", "7", "8", "10", "12", "16", "17"}) {
    const Experiment& e = find_experiment(mega_kv(), figure);
    EXPECT_NE(why_not(e, options).find("needs a GPU"), std::string::npos) << figure;
    EXPECT_THROW(run_experiment(mega_kv(), e, options, document), std::invalid_argument) << figure;
  }
  EXPECT_TRUE(document["runs"].empty());
}

TEST(Papers, WhatIsMissingDoesNotRun) {
  Json document{{"runs", Json::array()}};
  EXPECT_THROW(run_experiment(dido(), find_experiment(dido(), "15"), {}, document), std::invalid_argument);
  EXPECT_TRUE(document["runs"].empty());
}

}  // namespace
}  // namespace tandem::bench
