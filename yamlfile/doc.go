// Package yamlfile reads configuration files in YAML. A caller describes the keys that a file may
// have; the package returns their values with positions, or all mistakes with positions and near
// names. It reads no file itself and knows no key.
package yamlfile
