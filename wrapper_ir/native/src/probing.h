// How containers reach the debug printer's probes. What is declared weak here is linked only into
// libraries of programs that have probes.
#pragma once

#include <wir/program.h>

namespace wir::runtime {

class ProbeReport;  // where the probes of one call report to

// Reads what the environment says of probes, once; a container does it when it is made.
[[gnu::weak]] void read_probe_environment(const ProgramInfo& program);

// What the user says: a level (null: what the library was built with) and the directory for files
// (null: as before). Throws where there is no such level. Calls in progress are not touched.
[[gnu::weak]] void set_probes(const ProgramInfo& program, const char* level,
                              const char* directory);

// Null while probes are off.
[[gnu::weak]] ProbeReport* begin_probes(const ProgramInfo& program);
[[gnu::weak]] void end_probes(ProbeReport* report);
[[gnu::weak]] const ProbeSink* sink_of(const ProbeReport* report);

// The probes of one call.
class Probing {
 public:
  explicit Probing(const ProgramInfo& program)
      : report_(program.num_probes == 0 ? nullptr : begin_probes(program)) {}
  ~Probing() {
    if (report_ != nullptr) end_probes(report_);
  }
  Probing(const Probing&) = delete;
  Probing& operator=(const Probing&) = delete;

  const ProbeSink* sink() const { return report_ == nullptr ? nullptr : sink_of(report_); }

 private:
  ProbeReport* report_;
};

}  // namespace wir::runtime
