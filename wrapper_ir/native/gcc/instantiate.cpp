// A plugin of g++ for precompiled headers: `#pragma wir instantiate` instantiates every template
// that the header has used so far.
//
// g++ leaves that to the end of each file that reads the header, whether the file uses the header's
// functions or not: two thirds of what a small kernel costs. After the pragma, the instances are
// in the precompiled header. Code is the same; what a file does not use is not in its object.
//
// Declared here because g++ comes without its plugins' headers. Where one of these has changed, the
// compiler refuses to load the plugin, and the header is precompiled without it.

struct cpp_reader;
struct plugin_name_args;
struct plugin_gcc_version;

void c_register_pragma(const char* space, const char* name, void (*handler)(cpp_reader*));
void instantiate_pending_templates(int retries);

extern "C" {
void register_callback(const char* plugin, int event, void (*call)(void*, void*), void* data);
int plugin_is_GPL_compatible;
int plugin_init(plugin_name_args* args, plugin_gcc_version* version);
}

namespace {

constexpr int kPragmas = 15;  // PLUGIN_PRAGMAS in plugin.def, since 4.9

void instantiate(cpp_reader*) { instantiate_pending_templates(0); }

void add_pragma(void*, void*) { c_register_pragma("wir", "instantiate", instantiate); }

}  // namespace

int plugin_init(plugin_name_args*, plugin_gcc_version*) {
  register_callback("wir_instantiate", kPragmas, add_pragma, nullptr);
  return 0;
}
