#include <string>
#include <vector>

#include "cluster/member_commands.hpp"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return tandem::cluster::run_member_program(arguments);
}
