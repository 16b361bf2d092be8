#include "options/calibration_file.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>

#include "device/sim/sim_device.hpp"
#include "options/gpu_cycle.hpp"

namespace tandem::cli {
namespace {

using Json = nlohmann::ordered_json;

// 20 us and 5 ns, 100 us and 10 ns: C >= (2 * 20 + 100) / 2 = 70 us.
Calibration measured() {
  Calibration c;
  c.cells = 1 << 20;
  c.keys = 800'000;
  c.search = {.samples = {{100, 20'500, 20'400, 30'000}, {200, 21'000, 20'900, 31'000}}, .fit = {{5, 20'000}, 0.99}};
  c.change = {.samples = {{10, 100'100, 100'000, 110'000}, {20, 100'200, 100'100, 120'000}},
              .fit = {{10, 100'000}, 0.98}};
  return c;
}

// A temporary folder, removed at the end of the test.
class CalibrationFile : public testing::Test {
 protected:
  CalibrationFile() {
    std::string path = (std::filesystem::temp_directory_path() / "tandem_calibration_test_XXXXXX").string();
    folder_ = mkdtemp(path.data());
    path_ = folder_ / "state" / "tandem" / "calibration.json";
    device_ = make_sim_device();
  }
  ~CalibrationFile() override { std::filesystem::remove_all(folder_); }

  std::string error_of(const std::function<void()>& action) {
    try {
      action();
    } catch (const CalibrationError& error) {
      return error.what();
    } catch (const CommandError& error) {
      return error.what();
    }
    return {};
  }
  // The error for a file with this change.
  std::string error_with(const std::function<void(Json&)>& change) {
    Json document = calibration_json(device_->info(), measured());
    change(document);
    return error_of([&] { static_cast<void>(parse_calibration(document.dump(), "f")); });
  }
  Settings settings() {
    Settings s = serve_defaults();
    s.gpu.calibration = path_.string();
    return s;
  }
  std::chrono::microseconds cycle_of(const Settings& s, unsigned devices = 1) {
    const std::vector<std::shared_ptr<Device>> all(devices, device_);
    said_.clear();
    return gpu_cycle(s, all, [this](std::string_view line) { said_ += line; });
  }

  std::filesystem::path folder_, path_;
  std::shared_ptr<Device> device_;
  std::string said_;
};

TEST_F(CalibrationFile, IsReadAsItWasWritten) {
  write_calibration(calibration_json(device_->info(), measured()), path_.string());
  Calibration other = measured();
  other.change.fit.line.launch_ns = 90'000.5;
  write_calibration(calibration_json(device_->info(), other), path_.string());  // replaces the previous one
  const CalibrationRecord record = read_calibration(path_.string());
  EXPECT_EQ(record.device, "sim");
  EXPECT_EQ(record.backend, "sim");
  EXPECT_EQ(record.cells, 1U << 20);
  EXPECT_EQ(record.keys, 800'000U);
  EXPECT_EQ(record.search.line.query_ns, 5);
  EXPECT_EQ(record.search.line.launch_ns, 20'000);
  EXPECT_EQ(record.change.line.query_ns, 10);
  EXPECT_EQ(record.change.line.launch_ns, 90'000.5);
  EXPECT_EQ(record.change.r2, 0.98);
  EXPECT_EQ(record.date.size(), std::string("2026-11-23T05:31:23Z").size());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(path_.parent_path()), {}), 1);
}

TEST_F(CalibrationFile, SaysWhatIsWrongWithIt) {
  EXPECT_EQ(error_with([](Json&) {}), "");
  EXPECT_NE(error_with([](Json& d) { d["format"] = "tandem-calibration/9"; }).find("\"tandem-calibration/9\""),
            std::string::npos);
  EXPECT_NE(error_with([](Json& d) { d.erase("format"); }).find("f: format is missing"), std::string::npos);
  EXPECT_NE(error_with([](Json& d) { d["device"]["name"] = 7; }).find("device.name is no text"), std::string::npos);
  EXPECT_NE(error_with([](Json& d) { d["device"] = "x"; }).find("device is no object"), std::string::npos);
  EXPECT_NE(error_with([](Json& d) { d["search"]["k_ns"] = -1; }).find("search.k_ns is not from 0"), std::string::npos);
  EXPECT_NE(error_with([](Json& d) { d["change"]["b_ns"] = "1"; }).find("change.b_ns is no number"), std::string::npos);
  EXPECT_NE(error_with([](Json& d) { d["change"].erase("r2"); }).find("change.r2 is missing"), std::string::npos);
  EXPECT_NE(error_with([](Json& d) { d["table"]["cells"] = -4; }).find("table.cells is no number"), std::string::npos);
  for (const char* text : {"", "{", "[]", "7", "null", "\xff", "{\"format\": {}}"})
    EXPECT_NE(error_of([&] { static_cast<void>(parse_calibration(text, "f")); }).find("f: "), std::string::npos)
        << text;
  EXPECT_NE(error_of([&] { static_cast<void>(read_calibration(path_.string())); }).find("No such file"),
            std::string::npos);
  EXPECT_NE(error_of([&] { static_cast<void>(read_calibration(folder_.string())); }).find("cannot be read"),
            std::string::npos);
  std::ofstream(folder_ / "large") << std::string((1 << 20) + 1, ' ');
  EXPECT_NE(error_of([&] { static_cast<void>(read_calibration(folder_ / "large")); }).find("larger"),
            std::string::npos);
  EXPECT_NE(error_of([&] { write_calibration(Json(), folder_ / "large" / "x"); }).find("cannot be written"),
            std::string::npos);
}

TEST_F(CalibrationFile, IsOfOneDevice) {
  const CalibrationRecord record =
      parse_calibration(calibration_json(device_->info(), measured()).dump(), path_.string());
  check_device(record, device_->info(), "f");
  for (const auto& change : std::initializer_list<std::function<void(DeviceInfo&)>>{
           [](DeviceInfo& d) { d.name = "NVIDIA H100"; }, [](DeviceInfo& d) { d.backend = "cuda"; },
           [](DeviceInfo& d) { d.pci_bus_id = "0000:3b:00.0"; }}) {
    DeviceInfo other = device_->info();
    change(other);
    const std::string why = error_of([&] { check_device(record, other, "f"); });
    EXPECT_NE(why.find("f: is of another device, sim \"sim\"; this one is"), std::string::npos) << why;
  }
}

TEST_F(CalibrationFile, ChoosesTheCycle) {
  write_calibration(calibration_json(device_->info(), measured()), path_.string());
  Settings s = settings();
  s.gpu.latency_target_us = 300;
  EXPECT_EQ(cycle_of(s).count(), 100);
  // (200 - 140) us / (2 * 5 * .95 + 2 * 10 * .05) ns / 100 us
  EXPECT_NE(said_.find("cycle 100 us, which serves up to 57.14 million"), std::string::npos) << said_;
  s.gpu.latency_target_us = 207;
  EXPECT_NE(error_of([&] { static_cast<void>(cycle_of(s)); }).find("at least 70 us"), std::string::npos);
  s.gpu.latency_target_us = 300;
  s.gpu.rate_millions = 57;
  EXPECT_EQ(cycle_of(s).count(), 100);
  s.gpu.rate_millions = 58;
  EXPECT_NE(error_of([&] { static_cast<void>(cycle_of(s)); }).find("at 58 million"), std::string::npos);
  EXPECT_EQ(cycle_of(s, 2).count(), 100);  // each serves half of the rate
  s.gpu.get_percent = 100;
  s.gpu.rate_millions = 59.9;
  EXPECT_EQ(cycle_of(s).count(), 100);
  s.gpu.rate_millions = 0;
  s.engine.change_cycles = 1;
  EXPECT_NE(error_of([&] { static_cast<void>(cycle_of(s)); }).find("at least 120 us"), std::string::npos);
  s.gpu.latency_target_us = 1'000'000;
  EXPECT_EQ(cycle_of(s), gpu_cycle_max);
}

TEST_F(CalibrationFile, IsNotAskedWhereNothingIsChosen) {
  Settings s = serve_defaults();
  s.gpu.cycle_us = 77;
  EXPECT_EQ(cycle_of(s).count(), 77);
  EXPECT_EQ(said_, "");
  s.gpu.calibration = path_.string();
  EXPECT_NE(error_of([&] { static_cast<void>(cycle_of(s)); }).find("gpu-calibration: "), std::string::npos);
  write_calibration(calibration_json(device_->info(), measured()), path_.string());
  EXPECT_EQ(cycle_of(s).count(), 77);  // the given cycle wins; the log says what it serves
  EXPECT_NE(said_.find("cycle 77 us"), std::string::npos);
  EXPECT_EQ(cycle_of(s, 0).count(), 77);
  EXPECT_NE(said_.find("without a GPU"), std::string::npos);
}

}  // namespace
}  // namespace tandem::cli
