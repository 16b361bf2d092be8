// The accelerator that the settings ask for.
#pragma once
#include <functional>
#include <memory>
#include <string_view>

#include "cli/options.hpp"
#include "device/device.hpp"

namespace tandem::cli {

// nullptr: there is none, or it cannot be used; `say` is told why when it was asked for, as the store serves without.
std::shared_ptr<Device> open_gpu(const Settings& settings, const std::function<void(std::string_view)>& say);

}  // namespace tandem::cli
