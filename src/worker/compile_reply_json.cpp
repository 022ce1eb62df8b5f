#include "worker/compile_reply_json.h"

namespace planish::worker {

Json report_of(const CompileReply& reply) {
  return {{"sha256", reply.sha256},
          {"log", reply.log},
          {"registers", reply.registers},
          {"spill_bytes", reply.spill_bytes},
          {"shared_bytes", reply.shared_bytes},
          {"local_bytes", reply.local_bytes},
          {"instructions", reply.instructions}};
}

Status read_report(ObjectReader& reader, CompileReply& reply) {
  reader.text("sha256", reply.sha256);
  reader.text("log", reply.log);
  reader.integer("registers", reply.registers);
  reader.integer("spill_bytes", reply.spill_bytes);
  reader.integer("shared_bytes", reply.shared_bytes);
  reader.integer("local_bytes", reply.local_bytes);
  const Json* instructions = reader.object("instructions");
  PLANISH_CHECK(reader.finish());
  for (const auto& [kind, count] : instructions->items()) {
    if (count.is_number_integer()) reply.instructions[kind] = count.get<std::int64_t>();
  }
  return {};
}

}  // namespace planish::worker
