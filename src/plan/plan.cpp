#include "plan/plan.hpp"

#include <charconv>
#include <stdexcept>
#include <vector>

namespace tandem {
namespace {

std::string name(Task t) { return std::string(task_symbols[index_of(t)]); }

bool are_one(const Stage& a, const Stage& b) noexcept {
  return a.processor == b.processor && a.range.is_whole() && b.range.is_whole();
}

[[noreturn]] void refuse(const std::string& why) { throw std::invalid_argument(why); }

// Reads a plan's text from left to right.
class Reader {
 public:
  explicit Reader(std::string_view text) noexcept : text_(text) {}

  std::vector<Stage> stages() {
    std::vector<Stage> stages;
    skip_spaces();
    while (at_ != text_.size()) {
      stage(stages);
      skip_spaces();
    }
    return stages;
  }

 private:
  [[noreturn]] void expected(std::string_view what) const {
    const std::size_t from = std::min(at_, text_.size());
    const std::string rest(text_.substr(from, 12));
    refuse("plan, at character " + std::to_string(from + 1) + ": expected " + std::string(what) + ", not " +
           (rest.empty() ? std::string("its end") : "\"" + rest + "\""));
  }
  void skip_spaces() noexcept {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view word) noexcept {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  void stage(std::vector<Stage>& stages) {
    Stage stage;
    if (take(processor_symbols[index_of(Processor::device)])) {
      stage.processor = Processor::device;
    } else if (!take(processor_symbols[index_of(Processor::cpu)])) {
      expected("CPU or GPU");
    }
    if (!take("[")) expected("[");
    bool any = false;
    for (skip_spaces(); !take("]"); skip_spaces()) {
      const auto [first, last] = tasks();
      if (any && first != after(stage.last) && !is_next_of_reads(stage, first)) {
        refuse("plan: after " + name(stage.last) + " comes " +
               (stage.last == Task::send ? std::string("nothing") : name(after(stage.last))) + ", not " + name(first));
      }
      if (!any) stage.first = first;
      stage.last = last;
      any = true;
    }
    if (!any) refuse("plan: a stage without tasks");
    if (take("{")) stage.range = range();
    stages.push_back(stage);
  }
  // Whether a stage that begins with PP may leave out what is between.
  static bool is_next_of_reads(const Stage& stage, Task next) noexcept {
    return stage.processor == Processor::device && stage.first == Task::parse &&
           ((stage.last == Task::parse && next == Task::search) ||
            (stage.last == Task::search && next == Task::key_compare));
  }
  struct Tasks {
    Task first, last;
  };
  Tasks tasks() {
    const std::size_t end = std::min(text_.find_first_of(" ]", at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    if (word == "IN") {
      at_ = end;
      return {Task::search, Task::remove};
    }
    const auto* const symbol = std::ranges::find(task_symbols, word);
    if (symbol == task_symbols.end()) expected("a task (RV PP MM IN S I D KC RD WR SD) or ]");
    at_ = end;
    const auto task = static_cast<Task>(symbol - task_symbols.begin());
    return {task, task};
  }
  Range range() {
    Range range;
    if (!at(':')) range.begin = number();
    if (!take(":")) expected(":");
    if (!at('}')) range.end = number();
    if (!take("}")) expected("}");
    return range;
  }
  bool at(char c) const noexcept { return at_ < text_.size() && text_[at_] == c; }
  std::uint16_t number() {
    std::uint16_t value = 0;
    const char* const begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc() || value == Range::to_end) expected("a number of sets below 65535");
    at_ += static_cast<std::size_t>(end - begin);
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

std::string text_of(const Stage& stage) {
  std::string text(processor_symbols[index_of(stage.processor)]);
  if (stage == plan_frames.stages()[1]) return text + "[PP S KC RD WR]";
  if (stage == plan_located.stages()[1]) return text + "[PP S]";
  if (stage == plan_located_index.stages()[1]) return text + "[PP IN]";
  text += '[';
  for (std::size_t t = index_of(stage.first); t <= index_of(stage.last); ++t) {
    if (t != index_of(stage.first)) text += ' ';
    const bool all_of_index = static_cast<Task>(t) == Task::search && stage.last >= Task::remove;
    text += all_of_index ? std::string_view("IN") : task_symbols[t];
    if (all_of_index) t = index_of(Task::remove);
  }
  text += ']';
  if (stage.range.is_whole()) return text;
  text += '{' + std::to_string(stage.range.begin) + ':';
  if (stage.range.end != Range::to_end) text += std::to_string(stage.range.end);
  return text + '}';
}

}  // namespace

Plan::Plan(std::span<const Stage> stages) : count_(0) {
  std::size_t task = 0;  // the first of the next stage
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const Stage& stage = stages[s];
    if (task == task_count) refuse("plan: nothing comes after SD");
    const auto expected = static_cast<Task>(task);
    if (stage.first != expected)
      refuse("plan: " + name(expected) + " is missing, or not where " + name(stage.first) + " is");
    if (stage.last < stage.first) refuse("plan: a stage that ends before it begins");
    const bool is_rest = s != 0 && !stages[s - 1].range.is_whole() && stages[s - 1].range.begin == 0;
    const std::uint16_t begin = is_rest ? stages[s - 1].range.end : 0;
    if (stage.range.is_empty() || stage.range.begin != begin || (is_rest && stage.range.end != Range::to_end))
      refuse("plan: ranges are {0:n} and, in the stage after it, {n:}");
    if (is_rest && stage.last != stages[s - 1].last)
      refuse("plan: the stage of the rest has the tasks of the one before it");
    const bool has_rest = !is_rest && !stage.range.is_whole();
    if (!has_rest) task = index_of(stage.last) + 1;
    if (count_ != 0 && are_one(stages_[count_ - 1u], stage)) {
      stages_[count_ - 1u].last = stage.last;
      continue;
    }
    if (count_ == stages_max) refuse("plan: more than " + std::to_string(stages_max) + " stages");
    stages_[count_++] = stage;
  }
  if (task != task_count) refuse("plan: " + name(static_cast<Task>(task)) + " is missing");
}

Plan Plan::parse(std::string_view text) { return Plan(Reader(text).stages()); }

std::string Plan::text() const {
  std::string text;
  for (const Stage& stage : stages()) {
    if (!text.empty()) text += ' ';
    text += text_of(stage);
  }
  return text;
}

}  // namespace tandem
