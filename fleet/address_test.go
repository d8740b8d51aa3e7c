package fleet

import "testing"

func TestTemplate(t *testing.T) {
	labels := map[string]string{"cluster": "a1", "evil": "x/../y", "empty": ""}
	for _, tt := range []struct {
		name     string
		template Template
		host     string
		want     string
	}{
		{"none", "", "db1", ""},
		{"host", "https://{host}:7410/", "db1", "https://db1:7410/"},
		{"host without its port", "https://{host}:7410/", "db1:9100", "https://db1:7410/"},
		{"instance with its port", "https://{instance}/", "db1:9100", "https://db1:9100/"},
		{"a label", "https://gate/{cluster}/{host}/", "db1", "https://gate/a1/db1/"},
		{"a label that it lacks", "https://gate/{region}/{host}/", "db1", ""},
		{"an empty label", "https://gate/{empty}/", "db1", ""},
		{"a label that leads elsewhere", "https://gate/{evil}/", "db1", ""},
		{"a name that leads elsewhere", "https://{instance}/", "evil.example/x", ""},
		{"a name with a user", "https://{instance}/", "a@evil", ""},
		{"a script", "https://{instance}/", "javascript:alert(1)", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.template.Check(); err != nil {
				t.Fatal(err)
			}
			h := &Host{Name: tt.host, Labels: labels}
			if got := tt.template.Of(h); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	for _, bad := range []Template{
		"{host}:7410", "javascript:{host}", "https://{host", "https://{}/", "https://a}/",
		"https://{host}/?token=x", "https://a:b@{host}/", "https://{host}/#x",
	} {
		if bad.Check() == nil {
			t.Errorf("%q was accepted", bad)
		}
	}
}
