#include "bench/paper.hpp"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>

namespace tandem::bench {
namespace {

struct Contents {
  std::string_view paper;
  std::vector<std::string_view> figures;  // all with measurements, in the papers' texts
};

// Every figure and table with measurements. Left out are drawings, lists of hardware, and DIDO's list of notations.
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
  std::set<std::string> running;
  for (const Paper& paper : all_papers()) {
    for (const Experiment& e : paper.experiments) {
      if (e.run != nullptr) running.insert(std::string(paper.name) + " " + std::string(e.figure));
    }
  }
  const std::set<std::string> expected = {"mega-kv 1", "mega-kv 2", "mega-kv 13", "mega-kv table-3",      "dido 11",
                                          "dido 16",   "dido 20",   "dido 21",    "memcachedgpu table-5", "kvcg 3a",
                                          "kvcg 3c",   "kvcg 5",    "kvcg 6",     "heterokv table-2",     "heterokv 4",
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
  std::vector<Named> all;
  for (const Paper& paper : all_papers()) {
    for (const Experiment& e : paper.experiments) {
      if (e.run != nullptr) all.push_back({&paper, &e});
    }
  }
  return all;
}

class Runs : public testing::TestWithParam<Named> {};

TEST_P(Runs, QuicklyAndLeavesAFigureThatItsRunsExplain) {
  const auto [paper, experiment] = GetParam();
  PaperOptions options;
  options.quick = true;
  options.threads = {1};
  Json document{{"format", document_format}, {"notes", Json::array()}, {"runs", Json::array()}};
  run_experiment(*paper, *experiment, options, document);
  EXPECT_EQ(errors_of(document), "");
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
  EXPECT_GT(measured, 0U);
  EXPECT_GT(of_paper, 0U);
  const std::string text = figure_text(figure);
  EXPECT_NE(text.find(paper->machine), std::string::npos);
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

TEST(Papers, WhatIsMissingDoesNotRun) {
  Json document{{"runs", Json::array()}};
  EXPECT_THROW(run_experiment(dido(), find_experiment(dido(), "15"), {}, document), std::invalid_argument);
  EXPECT_TRUE(document["runs"].empty());
}

}  // namespace
}  // namespace tandem::bench
