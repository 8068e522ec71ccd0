// The names of gloo's that torch's ProcessGroupGloo.hpp mentions. PyTorch's pip package has gloo in
// its libraries, but not its headers. Torch's classes hold gloo's by pointers alone, and the
// program calls none of the functions here: that the header can name them is enough. With a PyTorch
// that has gloo's headers, leave this folder out.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace gloo {

class Context {
 public:
  void setTimeout(std::chrono::milliseconds timeout);
};

namespace rendezvous {

class Store {
 public:
  virtual ~Store() = default;
  virtual void set(const std::string& key, const std::vector<char>& data) = 0;
  virtual std::vector<char> get(const std::string& key) = 0;
  virtual void wait(const std::vector<std::string>& keys) = 0;
  virtual void wait(
      const std::vector<std::string>& keys, const std::chrono::milliseconds& timeout) = 0;
};

}  // namespace rendezvous

namespace transport {

class Device;
class UnboundBuffer;

}  // namespace transport

}  // namespace gloo
