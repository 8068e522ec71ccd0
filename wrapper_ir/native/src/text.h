// Text functions that several files use.
#pragma once

#include <string>

namespace wir::runtime {

inline std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// A string as a JSON literal, in ASCII.
inline std::string quoted(const std::string& text) {
  std::string made = "\"";
  const auto unit = [&made](unsigned value) {
    static constexpr char kHex[] = "0123456789abcdef";
    made += "\\u";
    for (int shift = 12; shift >= 0; shift -= 4) made += kHex[value >> shift & 15];
  };
  for (std::size_t n = 0; n < text.size(); ++n) {
    const auto byte = static_cast<unsigned char>(text[n]);
    if (byte == '"' || byte == '\\') {
      made += {'\\', static_cast<char>(byte)};
    } else if (byte == '\n' || byte == '\r' || byte == '\t' || byte == '\b' || byte == '\f') {
      made += '\\';
      made += byte == '\n' ? 'n' : byte == '\r' ? 'r' : byte == '\t' ? 't' : byte == '\b' ? 'b' : 'f';
    } else if (byte < 32 || byte == 127) {
      unit(byte);
    } else if (byte < 0x80) {
      made += static_cast<char>(byte);
    } else {
      const int more = byte >= 0xf0 ? 3 : byte >= 0xe0 ? 2 : 1;
      unsigned point = byte & (0x3f >> more);
      for (int left = more; left > 0 && n + 1 < text.size(); --left) {
        point = point << 6 | (static_cast<unsigned char>(text[++n]) & 0x3f);
      }
      if (point >= 0x10000) {
        unit(0xd800 + ((point - 0x10000) >> 10));
        unit(0xdc00 + ((point - 0x10000) & 0x3ff));
      } else {
        unit(point);
      }
    }
  }
  return made + "\"";
}

}  // namespace wir::runtime
