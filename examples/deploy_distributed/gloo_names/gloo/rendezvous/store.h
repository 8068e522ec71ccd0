#include <gloo/names.h>
