// `tandem bench paper`: the experiments of the papers.
#include <fmt/format.h>
#include <sysexits.h>
#include <unistd.h>

#include <stdexcept>

#include <CLI/CLI.hpp>

#include "bench/cli/bench.hpp"
#include "bench/cli/bench_common.hpp"
#include "bench/common/machine.hpp"
#include "bench/engine/threads.hpp"
#include "bench/papers/paper.hpp"
#include "device/cuda/cuda_device.hpp"
#include "options/options.hpp"
#include "options/plan_costs_file.hpp"
#include "options/value.hpp"

namespace tandem::cli {
namespace {

struct PaperArguments {
  std::string paper, json, items = "192MiB", plan_costs;
  std::vector<std::string> figures;
  bench::PaperOptions options;
  bool quiet = false;
};

void add_paper_options(CLI::App& app, PaperArguments& g) {
  app.add_option("paper", g.paper, "name of a paper; without one all experiments are listed");
  app.add_option("figure", g.figures, "figures and tables, such as 13 or table-3 (default: all that can run)");
  app.add_flag("--quick", g.options.quick, "small tables and one short round: to see that it runs, not for figures");
  app.add_option("--rounds", g.options.rounds, "rounds of each measurement")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--seconds", g.options.seconds, "of each measurement")
      ->capture_default_str()
      ->check(CLI::Range(0.001, 3600.0));
  app.add_option("--items", g.items, "item memory that keys fill")->capture_default_str();
  app.add_option("--threads", g.options.threads, "threads (default: one for each processor)")
      ->delimiter(',')
      ->check(CLI::Range(1, 128));
  app.add_option("--gpu", g.options.gpu, "auto (the first one), off, or sim: one in software, to see that it runs")
      ->capture_default_str()
      ->check(CLI::IsMember({"auto", "off", "sim"}));
  app.add_option("--plan-costs", g.plan_costs,
                 "for the cost model: a file of `tandem calibrate --plans` (default: they are measured first)");
  app.add_option("--seed", g.options.seed, "of the requests")->capture_default_str();
  app.add_option("--json", g.json,
                 "write the document to a file (-: standard output, and the tables to standard error)");
  app.add_flag("--quiet", g.quiet, "no tables and no progress");
}

std::vector<const bench::Experiment*> chosen(const bench::Paper& paper, const PaperArguments& g) {
  std::vector<const bench::Experiment*> experiments;
  for (const std::string& figure : g.figures) experiments.push_back(&bench::find_experiment(paper, figure));
  if (!g.figures.empty()) return experiments;
  for (const bench::Experiment& e : paper.experiments) {
    if (bench::why_not(e, g.options).empty()) experiments.push_back(&e);
  }
  return experiments;
}

// The file that was given, if it is of this machine.
void read_plan_costs(PaperArguments& g) {
  try {
    const Coefficients c = parse_plan_costs(read_calibration_text(g.plan_costs), g.plan_costs);
    std::string gpu = "sim";
    if (g.options.gpu != "sim") gpu = cuda_device_count().count != 0 ? make_cuda_device(0)->info().name : "";
    check_machine(c, bench::describe_machine().value("cpu", "unknown"), gpu,
                  static_cast<unsigned>(bench::allowed_processors().size()), g.plan_costs);
    g.options.plan_costs = c;
  } catch (const std::runtime_error& error) {  // of the file, or of the GPU
    fmt::print(stderr, "tandem: bench paper: {}; it is ignored\n", error.what());
  }
}

int run_experiments(std::span<const std::string> arguments, PaperArguments& g) {
  const bench::Paper* paper = nullptr;
  std::vector<const bench::Experiment*> experiments;
  try {
    g.options.item_bytes = parse_size(g.items);
    paper = &bench::find_paper(g.paper);
    experiments = chosen(*paper, g);
  } catch (const std::invalid_argument& error) {
    throw CommandError(EX_USAGE, fmt::format("bench paper: {}", error.what()));
  }
  for (const bench::Experiment* e : experiments) {
    if (const std::string why = bench::why_not(*e, g.options); !why.empty())
      throw CommandError(EX_UNAVAILABLE, fmt::format("bench paper: {} {} {}", paper->name, e->figure, why));
  }
  if (g.figures.empty() && !g.quiet) {
    for (const bench::Experiment& e : paper->experiments) {
      if (e.run == nullptr) continue;
      if (const std::string why = bench::why_not(e, g.options); !why.empty())
        fmt::print(stderr, "{} {} is left out: it {}\n", paper->name, e.figure, why);
    }
  }

  if (!g.plan_costs.empty()) read_plan_costs(g);
  std::FILE* const out = g.json == "-" ? stderr : stdout;
  const bool shows_progress = !g.quiet && isatty(STDERR_FILENO) != 0;
  if (shows_progress) g.options.progress = [](std::string_view what) { fmt::print(stderr, "\r\x1b[K{}", what); };
  bench::Json document = bench::make_document(command_line("bench paper", arguments));
  if (g.options.quick) document["notes"].push_back("measured with --quick: not for figures");
  bool has_failed = false;
  for (const bench::Experiment* e : experiments) {
    try {
      bench::run_experiment(*paper, *e, g.options, document);
    } catch (const std::runtime_error& error) {  // the figures before and behind it are kept
      has_failed = true;
      document["notes"].push_back(fmt::format("failed: {} {}: {}", paper->name, e->figure, error.what()));
      fmt::print(stderr, "tandem: bench paper: {} {} failed: {}\n", paper->name, e->figure, error.what());
      continue;
    }
    if (shows_progress) fmt::print(stderr, "\r\x1b[K");
    if (!g.quiet) fmt::print(out, "{}\n", bench::figure_text(document["figures"].back(), g.options.quick));
    std::fflush(out);
  }
  if (!g.json.empty()) bench::write_document(document, g.json);
  if (const std::string errors = bench::errors_of(document); !errors.empty()) {
    fmt::print(stderr, "tandem: bench paper: {}\n", errors);
    return EXIT_FAILURE;
  }
  return has_failed ? EXIT_FAILURE : EX_OK;
}

}  // namespace

int run_bench_paper(std::span<const std::string> arguments) {
  PaperArguments g;
  CLI::App app("Runs the experiments of the papers, as far as the store can today, beside the papers' own figures.",
               "tandem bench paper");
  add_paper_options(app, g);
  if (const auto done = parse_arguments(app, arguments, "bench paper")) return *done;
  if (!g.paper.empty()) return run_experiments(arguments, g);
  fmt::print("{}", bench::papers_text(bench::all_papers()));
  return EX_OK;
}

}  // namespace tandem::cli
