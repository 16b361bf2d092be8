// A Verilated model with a clock. Time is counted in cycles of that clock and in nothing else.
#pragma once

#include <verilated.h>

#include <cstdint>
#include <memory>
#include <random>
#include <type_traits>

namespace tandem::rtl {

// std::mt19937; its numbers have 64 bits where uint_fast32_t has.
using Random = std::mersenne_twister_engine<uint32_t, 32, 624, 397, 31, 0x9908b0df, 11, 0xffffffff, 7, 0x9d2c5680, 15,
                                            0xefc60000, 18, 1812433253>;

// A model of a module with `clk` and a synchronous `rst`. In a cycle inputs are set, settle() makes outputs follow
// them, and tick() ends it.
template <class Model>
class Simulation {
 public:
  Simulation() : context_(std::make_unique<VerilatedContext>()), model_(std::make_unique<Model>(context_.get())) {
    reset();
  }

  Model* operator->() { return model_.get(); }
  Model& operator*() { return *model_; }

  void settle() { model_->eval(); }

  void tick() {
    model_->clk = 1;
    model_->eval();
    model_->clk = 0;
    model_->eval();
    cycles_ += 1;
  }

  void reset() {
    model_->rst = 1;
    tick();
    tick();
    model_->rst = 0;
    model_->eval();
    cycles_ = 0;
  }

  uint64_t cycles() const { return cycles_; }

 private:
  std::unique_ptr<VerilatedContext> context_;
  std::unique_ptr<Model> model_;
  uint64_t cycles_ = 0;
};

// Field `i` of so many bits (at most 32) of a port that has several.
template <class Port>
uint32_t field(const Port& port, uint32_t i, uint32_t bits) {
  const auto mask = static_cast<uint32_t>((uint64_t{1} << bits) - 1);
  if constexpr (std::is_integral_v<Port>) {
    return static_cast<uint32_t>(uint64_t{port} >> (i * bits)) & mask;
  } else {
    return (port[i * bits / 32] >> (i * bits % 32)) & mask;
  }
}

template <class Port>
void set_field(Port& port, uint32_t i, uint32_t bits, uint32_t value) {
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  if constexpr (std::is_integral_v<Port>) {
    const uint32_t at = i * bits;
    port = static_cast<Port>((uint64_t{port} & ~(mask << at)) | (uint64_t{value} << at));
  } else {
    const uint32_t at = i * bits % 32;
    auto& word = port[i * bits / 32];
    word = static_cast<uint32_t>((word & ~(mask << at)) | (uint64_t{value} << at));
  }
}

}  // namespace tandem::rtl
