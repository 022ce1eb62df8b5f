#pragma once

#include <doctest/doctest.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "planish_rt.h"

namespace runtime_test {

using Json = nlohmann::json;

/// A folder that goes away with the object.
struct Scratch {
  std::string path;
  Scratch() {
    char name[] = "/tmp/planish-test-XXXXXX";
    path = mkdtemp(name);
  }
  ~Scratch() { std::filesystem::remove_all(path); }
};

/// Compiles `body` as kernel `k`, after `top`, and returns the shared object's path.
inline std::string compile(const Scratch& scratch, const std::string& body, const std::string& flags = "",
                           const std::string& top = "") {
  static int n = 0;
  const std::string base = scratch.path + "/k" + std::to_string(n++);
  std::ofstream(base + ".cpp") << "#include <cstdint>\n#include <cstdlib>\n#include <csignal>\n#include <unistd.h>\n"
                               << top << "extern \"C\" void k(void** args) {" << body << "}\n";
  const std::string command = "g++ -O1 -shared -fPIC " + flags + " -o " + base + ".so " + base + ".cpp";
  REQUIRE(std::system(command.c_str()) == 0);
  return base + ".so";
}

inline Json buffer(const char* role, std::vector<std::int64_t> shape, const char* dtype = "f32",
                   std::vector<std::int64_t> strides = {}) {
  if (strides.empty()) {
    strides.assign(shape.size(), 1);
    for (std::size_t i = shape.size(); i-- > 1;) strides[i - 1] = strides[i] * shape[i];
  }
  return {{"role", role}, {"dtype", dtype}, {"shape", shape}, {"strides", strides}};
}

inline Json launch(int kernel, Json args) {
  return {{"kind", "launch"},     {"kernel", kernel}, {"grid", {1, 1, 1}},      {"block", {1, 1, 1}},
          {"cluster", {1, 1, 1}}, {"shared", 0},      {"args", std::move(args)}};
}

inline Json program(Json buffers, Json steps, int kernels = 1) {
  Json list = Json::array();
  for (int i = 0; i < kernels; ++i)
    list.push_back({{"language", "cpp"}, {"entry", "k"}, {"flags", Json::array()}, {"source", ""}});
  return {{"schema", "planish.program/1"}, {"target", "cpu"}, {"arch", "x86-64"},
          {"buffers", std::move(buffers)}, {"kernels", list}, {"steps", std::move(steps)},
          {"outputs", Json::array()}};
}

/// y[i] = 2 x[i] + 1 over n floats: arguments x, y, n.
inline const char* affine =
    "auto x = (const float*)args[0]; auto y = (float*)args[1]; auto n = *(const int64_t*)args[2];"
    "for (int64_t i = 0; i < n; ++i) y[i] = 2 * x[i] + 1;";

struct Loaded {
  prt_program* program = nullptr;
  prt_error error{};
  Loaded(const Json& document, const std::vector<std::string>& binaries) {
    std::vector<const char*> names;
    for (const auto& b : binaries) names.push_back(b.c_str());
    const std::string text = document.dump();
    prt_program_load(-1, text.data(), text.size(), names.data(), static_cast<int>(names.size()), &program, &error);
  }
  ~Loaded() { prt_program_free(program); }
  std::string kind() const { return error.kind; }
  int run(std::vector<void*> pointers, int first, int last) {
    return prt_program_run(program, pointers.data(), static_cast<int>(pointers.size()), first, last, nullptr, &error);
  }
};

struct Shared {
  prt_buffer* buffer = nullptr;
  explicit Shared(std::uint64_t bytes, bool seal = false) {
    prt_error error{};
    REQUIRE_MESSAGE(prt_buffer_create(-1, bytes, seal ? 1 : 0, &buffer, &error) == 0, error.message);
  }
  ~Shared() { prt_buffer_free(buffer); }
  template <typename T = float>
  T* data() const {
    return static_cast<T*>(prt_buffer_data(buffer));
  }
  bool intact() const {
    int ok = 0;
    REQUIRE(prt_buffer_guards(buffer, &ok, nullptr) == 0);
    return ok == 1;
  }
};

/// A planish-runner at the other end of a socket pair.
class Runner {
 public:
  explicit Runner(std::vector<std::string> options = {}) {
    int pair[2];
    REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
    socket_ = pair[0];
    const std::string path = std::string(PLANISH_BUILD_DIR) + "/bin/planish-runner";
    pid_ = fork();
    if (pid_ == 0) {
      if (pair[1] == 3)
        fcntl(3, F_SETFD, 0);
      else
        dup2(pair[1], 3);
      std::vector<char*> argv{const_cast<char*>(path.c_str())};
      for (auto& option : options) argv.push_back(option.data());
      argv.push_back(nullptr);
      execv(path.c_str(), argv.data());
      _exit(127);
    }
    close(pair[1]);
  }
  ~Runner() {
    close(socket_);
    if (pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
  }

  void send(const std::string& line, const std::vector<int>& fds = {}) { send_part(line + "\n", fds); }
  void send_part(std::string text, const std::vector<int>& fds) {
    alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * 64)]{};
    iovec piece{text.data(), text.size()};
    msghdr message{};
    message.msg_iov = &piece;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
      message.msg_control = control;
      message.msg_controllen = CMSG_SPACE(sizeof(int) * fds.size());
      cmsghdr* header = CMSG_FIRSTHDR(&message);
      header->cmsg_level = SOL_SOCKET;
      header->cmsg_type = SCM_RIGHTS;
      header->cmsg_len = CMSG_LEN(sizeof(int) * fds.size());
      std::memcpy(CMSG_DATA(header), fds.data(), sizeof(int) * fds.size());
    }
    REQUIRE(sendmsg(socket_, &message, MSG_NOSIGNAL) == static_cast<ssize_t>(text.size()));
  }
  /// The next line; null after `timeout_ms`, or when the runner has gone.
  Json receive(int timeout_ms = 20000) {
    for (;;) {
      if (const auto end = buffer_.find('\n'); end != std::string::npos) {
        Json out = Json::parse(buffer_.substr(0, end));
        buffer_.erase(0, end + 1);
        return out;
      }
      pollfd p{socket_, POLLIN, 0};
      if (poll(&p, 1, timeout_ms) <= 0) return nullptr;
      char chunk[65536];
      const ssize_t n = read(socket_, chunk, sizeof chunk);
      if (n <= 0) return nullptr;
      buffer_.append(chunk, static_cast<std::size_t>(n));
    }
  }
  void request(const char* method, Json params, const std::vector<int>& fds = {}) {
    Json message = {{"id", ++id_}, {"method", method}, {"params", std::move(params)}};
    if (!fds.empty()) message["fds"] = fds.size();
    send(message.dump(), fds);
  }
  /// The answer to a request.
  Json call(const char* method, Json params, const std::vector<int>& fds = {}) {
    request(method, std::move(params), fds);
    Json answer = receive();
    if (answer.is_object() && answer.contains("id")) CHECK(answer["id"] == id_);
    return answer;
  }
  /// Exit code, or 1000 + the signal; waits.
  int wait() {
    int status = 0;
    waitpid(pid_, &status, 0);
    pid_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
  }
  void hang_up() { shutdown(socket_, SHUT_RDWR); }
  pid_t pid() const { return pid_; }

 private:
  int socket_ = -1;
  pid_t pid_ = -1;
  int id_ = 0;
  std::string buffer_;
};

inline Json description(const Shared& shared, int index, std::uint64_t bytes, bool writable) {
  return {{"buffer", index},
          {"dtype", "f32"},
          {"shape", {bytes / 4}},
          {"strides", {1}},
          {"bytes", bytes},
          {"offset", prt_buffer_offset(shared.buffer)},
          {"map_bytes", prt_buffer_map_bytes(shared.buffer)},
          {"device", "cpu"},
          {"writable", writable}};
}

}  // namespace runtime_test
