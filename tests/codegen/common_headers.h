#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <string>

namespace planish::codegen {

/// Headers of the language, compiled once for each set of flags that comes a second time: with GCC, reading them is
/// most of what a short text takes otherwise.
class CommonHeaders {
 public:
  /// What to add to the command.
  static std::string option(const std::string& flags) {
    static CommonHeaders all;
    const int number = ++all.asked_[flags];
    if (number == 1) return "";
    const std::string header = fmt::format("{}/{}.h", all.folder_.string(), std::hash<std::string>()(flags));
    if (number == 2) {
      std::ofstream(header) << "#include <algorithm>\n#include <cmath>\n#include <cstdint>\n#include <cstdio>\n"
                               "#include <cstdlib>\n#include <cstring>\n#include <deque>\n#include <functional>\n"
                               "#include <vector>\n";
      REQUIRE(std::system(fmt::format("g++ {1} -fPIC -x c++-header {0} -o {0}.gch", header, flags).c_str()) == 0);
    }
    return " -include " + header;
  }

 private:
  CommonHeaders() {
    char name[] = "/tmp/planish-headers-XXXXXX";
    folder_ = mkdtemp(name);
  }
  ~CommonHeaders() { std::filesystem::remove_all(folder_); }
  std::filesystem::path folder_;
  std::map<std::string, int> asked_;
};

}  // namespace planish::codegen
