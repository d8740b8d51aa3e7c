package bpftrace

import (
	"regexp"
	"slices"
	"strings"
)

// Settings are the settings of a config block that have an effect, and of the environment.
type Settings map[string]string

// knownSettings are the settings of bpftrace's versions.
//
// table: bpftrace's documentation
var knownSettings = []string{
	"cache_user_symbols", "cpp_demangle", "lazy_symbolication", "license", "log_size",
	"max_ast_nodes", "max_bpf_progs", "max_cat_bytes", "max_map_keys", "max_probes", "max_strlen",
	"max_type_res_iterations", "missing_probes", "on_stack_limit", "perf_rb_pages",
	"print_maps_on_exit", "probe_inline", "show_debug_info", "stack_mode", "str_trunc_trailer",
	"strlen", "cat_bytes_max", "map_keys_max", "no_cpp_demangle", "symbol_source", "use_blazesym",
}

// setting matches a setting of a config block: max_strlen = 200;
var setting = regexp.MustCompile(`(\w+)\s*=\s*"?([\w.]+)"?\s*[;}]`)

// settingName returns the name of a setting without BPFTRACE_ before it, in small letters.
func settingName(name string) string {
	return strings.TrimPrefix(strings.ToLower(name), "bpftrace_")
}

// settings returns the settings of a config block, and reports those that are unknown.
func (p *parser) settings(from, to int) Settings {
	out := Settings{}
	block := p.text[from:to]
	open := strings.IndexByte(block, '{') + 1
	for _, m := range setting.FindAllStringSubmatchIndex(block[open:], 1000) {
		name, at := block[open+m[2]:open+m[3]], from+open
		own := settingName(name)
		if !slices.Contains(knownSettings, own) && !strings.HasPrefix(own, "unstable_") {
			p.report(BadSyntax, at+m[2], at+m[3], "unknown setting "+shown(name),
				"settings are "+strings.Join(knownSettings[:len(knownSettings)-6], ", "))
		}
		out[own] = block[open+m[4] : open+m[5]]
	}
	return out
}
