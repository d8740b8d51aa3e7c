// The search of a flame graph: / or Ctrl-F opens it, as does a click. It takes a part of a name, or
// /a pattern/. Enter goes to the next match, Shift-Enter to the one before, Escape ends it.
(() => {
	const script = document.currentScript;
	const svg = (script && script.closest("svg")) || document.documentElement;
	const field = svg.querySelector(".field");
	const result = svg.querySelector(".result");
	// From the root, each call before those that it calls, from left to right.
	const calls = [...svg.querySelectorAll("g")].map((g) => {
		const title = g.querySelector("title").textContent;
		const box = g.querySelector("rect");
		const x = Number(box.getAttribute("x"));
		const at = title.lastIndexOf(" (");
		const amount = amountOf(title.slice(at + 2));
		return { g, box, name: title.slice(0, at), amount, x, end: x + Number(box.getAttribute("width")) };
	});
	let typed = null; // null: no search
	let matches = [];
	let at = -1;

	// Of "1,200 samples, 30.00%", and of a comparison "25.00% before, 30.00% after", which is as wide.
	function amountOf(text) {
		const number = / before, ([\d.,e+-]+)/.exec(text) || /^([\d.,e+-]+)/.exec(text);
		return number ? Number(number[1].replace(/,/g, "")) : NaN;
	}

	function matcher() {
		const pattern = /^\/(.+)$/.exec(typed);
		if (!pattern) {
			const want = typed.toLowerCase();
			return (name) => name.toLowerCase().includes(want);
		}
		const like = new RegExp(pattern[1].replace(/\/$/, ""), "i");
		return (name) => like.test(name);
	}

	function find() {
		for (const m of matches) m.g.classList.remove("found", "here");
		matches = [];
		at = -1;
		let wrong = "";
		if (typed) {
			let end = -1; // of the outermost match: what it calls is in its amount
			try {
				const fits = matcher();
				for (const c of calls.slice(1)) {
					if (c.x < end || !fits(c.name)) continue;
					end = c.end;
					matches.push(c);
				}
			} catch (e) {
				wrong = "no valid pattern";
			}
		}
		for (const m of matches) m.g.classList.add("found");
		show(wrong);
	}

	function show(wrong) {
		field.textContent = typed === null ? "search (/)" : "search: " + typed + "\u2502";
		if (wrong || !typed) {
			result.textContent = wrong || "";
			return;
		}
		const share = (100 * matches.reduce((s, m) => s + m.amount, 0)) / calls[0].amount;
		const all = matches.length + (matches.length === 1 ? " call" : " calls");
		const place = at < 0 ? all : at + 1 + " of " + matches.length;
		if (matches.length === 0) result.textContent = "no match";
		else result.textContent = (share >= 0 ? share.toFixed(2) + " % matched, " : "") + place;
	}

	function go(step) {
		if (matches.length === 0) return;
		if (at >= 0) matches[at].g.classList.remove("here");
		at = at < 0 && step < 0 ? matches.length - 1 : (at + step + matches.length) % matches.length;
		const { g, box } = matches[at];
		g.classList.add("here");
		box.scrollIntoView({ block: "center", inline: "center" });
		show("");
	}

	function type(text) {
		typed = text === null ? null : text.slice(0, 200);
		find();
	}

	function key(e) {
		const control = e.ctrlKey || e.metaKey;
		if (typed === null) {
			const opens = control ? e.key === "f" : e.key === "/" && !e.altKey;
			if (!opens) return;
			type("");
		} else if (control || e.altKey) return; // a second Ctrl-F is the browser's
		else if (e.key === "Escape") type(null);
		else if (e.key === "Enter") go(e.shiftKey ? -1 : 1);
		else if (e.key === "Backspace") type([...typed].slice(0, -1).join(""));
		else if ([...e.key].length === 1) type(typed + e.key);
		else return;
		e.preventDefault();
	}

	document.addEventListener("keydown", key);
	document.addEventListener("paste", (e) => {
		if (typed === null || !e.clipboardData) return;
		type(typed + e.clipboardData.getData("text").replace(/\s+/g, " ").trim());
		e.preventDefault();
	});
	field.addEventListener("click", () => type(typed === null ? "" : null));
	show("");
})();
