package facts

import (
	"strings"
	"testing"

	"culprit/heapbound"
)

func TestScriptOf(t *testing.T) {
	for _, tt := range []struct{ command, want string }{
		{"python3 /srv/app/x.py", "x.py"},
		{"/usr/bin/python3.11 -u -W ignore x.py --token hunter2", "x.py"},
		{"python3 -m http.server 80", "http.server"},
		{"python3 /usr/bin/gunicorn app:wsgi", "gunicorn"},
		{"python3 -c print(1) /srv/x.py", ""},
		{"python3", ""},
		{"python3 hunter2", ""},
		{"/bin/bash -e ./backup.sh /var", "backup.sh"},
		{"bash -lc /srv/x.sh", ""},
		{"-bash", ""},
		{"sh -c curl https://u:hunter2@host", ""},
		{"node --max-old-space-size=4096 -r dotenv/config server.js", "server.js"},
		{"node --eval x.js", ""},
		{"java -Xmx4g -Dpassword=hunter2.jar -cp /a.jar:/b.jar com.acme.Main -k hunter2.x",
			"com.acme.Main"},
		{"/usr/bin/java -jar /opt/app/app.jar", "app.jar"},
		{"java -Xmx1g hunter2", ""},
		{"perl -I /lib -we print", ""},
		{"perl /srv/x.pl", "x.pl"},
		{"ruby -r json bin/rails s", "rails"},
		{"php -r echo", ""},
		{"php -d memory_limit=1 /srv/a.php", "a.php"},
		{"postgres: writer process", ""},
		{"nginx -c /etc/nginx.conf", ""},
		{"python3 /srv/pass=word", ""},
		{"python3 /srv/" + strings.Repeat("x", 65), ""},
		{"", ""},
	} {
		if got := ScriptOf(tt.command); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.command, got, tt.want)
		}
	}
}

// FuzzScriptOf: the name of a script is short, printable, and a part of the command line that is no
// assignment and no address.
func FuzzScriptOf(f *testing.F) {
	f.Add("python3 -u /srv/app/x.py --token hunter2")
	f.Add("java -cp a:b com.acme.Main")
	f.Add("sh -c \xff\x00 -")
	heapbound.Fuzz(f, func(t *testing.T, command string) {
		got := ScriptOf(command)
		if len(got) > mostScriptName || strings.ContainsAny(got, "=@: \x00\x1b\n/") ||
			!strings.Contains(command, got) {
			t.Errorf("%q: %q", command, got)
		}
	})
}
