package measure

import (
	"strings"
	"testing"
)

func TestMaskSecrets(t *testing.T) {
	for in, want := range map[string]string{
		// An argument ends with |, which represents a 0.
		"ls|-l|/home|":                             "ls|-l|/home|",
		"app|--password=HUNTER2|--x|":              "app|--password=***|--x|",
		"app|--password=two words|--x|":            "app|--password=***|--x|",
		"app|--password|HUNTER2|--x|":              "app|--password|***|--x|",
		"app|--password|--x|":                      "app|--password|--x|",
		"app|-passwd|HUNTER2|":                     "app|-passwd|***|",
		"app|--db.api-key=HUNTER2|":                "app|--db.api-key=***|",
		"env|PGPASSWORD=HUNTER2|psql|":             "env|PGPASSWORD=***|psql|",
		"sh|-c|x --password=HUNTER2; y|":           "sh|-c|x --password=***; y|",
		"sh|-c|x --password HUNTER2 --y|":          "sh|-c|x --password *** --y|",
		"sh|-c|mysql -u a -pHUNTER2 db|":           "sh|-c|mysql -u a -p*** db|",
		"/usr/bin/mysqldump|-pHUNTER2|db|":         "/usr/bin/mysqldump|-p***|db|",
		"mysql|-p|db|":                             "mysql|-p|db|",
		"mkdir|-parents|x|":                        "mkdir|-parents|x|",
		"sshpass|-p|HUNTER2|ssh|a|":                "sshpass|-p|***|ssh|a|",
		"sshpass|-pHUNTER2|ssh|a|":                 "sshpass|-p***|ssh|a|",
		"curl|-u|me:HUNTER2|http://a|":             "curl|-u|me:***|http://a|",
		"curl|-H|Authorization: Bearer HUNTER2|x|": "curl|-H|Authorization: Bearer ***|x|",
		"curl|https://a/?token=HUNTER2&b=c|":       "curl|https://a/?token=***&b=c|",
		"psql|postgres://me:HUNTER2@db/x|":         "psql|postgres://me:***@db/x|",
		"app|AKIAHUNTER2HUNTER2XX|":                "app|AKIA***|",
		"app|ghp_HUNTER2HUNTER2|":                  "app|ghp_***|",
		"java|-Dserver.secret=HUNTER2|":            "java|-Dserver.secret=***|",
		"app|{\"password\": \"HUNTER2\"}|":         "app|{\"password\": \"***\"}|",
		"app|--listen|10.0.0.1:80|-u|root|":        "app|--listen|10.0.0.1:80|-u|root|",
		"tokenize|file|":                           "tokenize|file|",
	} {
		t.Run(in, func(t *testing.T) {
			var m Masker
			args := strings.ReplaceAll(in, "|", "\x00")
			got := strings.ReplaceAll(string(m.Mask([]byte(args))), "\x00", "|")
			if got != want {
				t.Errorf("%s, want %s", got, want)
			}
			off := Masker{Off: true}
			if got := off.Mask([]byte(args)); string(got) != args {
				t.Errorf("with off: %q", got)
			}
		})
	}
}

func TestParseMasks(t *testing.T) {
	m, err := ParseMasks([]string{`(customer )\d+`, `xyz+`})
	if err != nil {
		t.Fatal(err)
	}
	got := string(m.Mask([]byte("a\x00customer 42 xyzz\x00")))
	if got != "a\x00customer *** ***\x00" {
		t.Errorf("%q", got)
	}
	if m, err := ParseMasks([]string{"off"}); err != nil || !m.Off {
		t.Errorf("%v %v", m, err)
	}
	if _, err := ParseMasks([]string{"("}); err == nil {
		t.Error("a wrong pattern has no error")
	}
}
