#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "planish_rt.h"

/// The methods of the Runner section of docs/formats/wire.md. One thread.
namespace planish::runner {

struct ProgramDeleter {
  void operator()(prt_program* p) const { prt_program_free(p); }
};
struct BufferDeleter {
  void operator()(prt_buffer* b) const { prt_buffer_free(b); }
};

/// Thrown inside the session, turned into an error answer by answer().
struct Refusal {
  std::string kind, message, hint;
};

class Session {
 public:
  /// `take_fd` gives descriptors in the order of arrival, -1 when there are no more; they are then the session's.
  Session(std::string device_option, nlohmann::json sandbox, std::function<int()> take_fd);
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  /// The complete answer line for a request line; never throws.
  std::string answer(const std::string& line);

 private:
  struct Program {
    std::unique_ptr<prt_program, ProgramDeleter> program;
    std::vector<std::string> roles;  ///< by buffer
    int steps = 0;
  };
  struct Data {
    std::int64_t handle = 0;
    std::vector<std::unique_ptr<prt_buffer, BufferDeleter>> buffers;
    std::vector<void*> pointers;  ///< by program buffer; null where nothing is bound
    std::vector<int> ranges;      ///< slots of the fault handler's names
    std::int64_t bytes = 0;       ///< of shared CPU mappings
  };

  nlohmann::json dispatch(const std::string& method, const nlohmann::json& params);
  nlohmann::json hello(const nlohmann::json& params);
  nlohmann::json load(const nlohmann::json& params);
  nlohmann::json bind(const nlohmann::json& params);
  nlohmann::json run(const nlohmann::json& params);
  nlohmann::json time(const nlohmann::json& params);
  nlohmann::json unbind(const nlohmann::json& params);
  nlohmann::json unload(const nlohmann::json& params);
  Program& program_of(const nlohmann::json& params);
  Data& data_of(const std::string& name, std::int64_t handle);
  void bind_one(const nlohmann::json& description, const Program& program, Data* data);
  void release(Data* data);

  std::string device_option_;
  int device_ = -1;
  std::unique_ptr<nlohmann::json> sandbox_;
  std::function<int()> take_fd_;
  std::deque<int> descriptors_;  ///< of the message being answered
  std::int64_t next_handle_ = 1;
  std::map<std::int64_t, Program> programs_;
  std::map<std::string, Data> data_;
};

}  // namespace planish::runner
