// The page of one profile. Everything of the profile is put in as text, never as markup.
"use strict";
(() => {
	const data = JSON.parse(document.getElementById("data").textContent);
	const $ = (id) => document.getElementById(id);
	const canvas = $("canvas"), frame = $("frame"), pen = canvas.getContext("2d");
	const n = data.nodes, rows = 18, font = '11px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace';
	const bytes = atob(document.getElementById("columns").textContent);
	let byte = 0;
	function next() {
		let c = bytes.charCodeAt(byte++), v = c & 127;
		for (let more = 128; c > 127; more *= 128) {
			c = bytes.charCodeAt(byte++);
			v += (c & 127) * more;
		}
		return v;
	}
	// Columns: nodes stand in the order of a walk, callers first, what they call by name.
	const parent = new Int32Array(n), depth = new Int32Array(n), end = new Int32Array(n), left = new Float64Array(n), fn = new Uint32Array(n);
	let deepest = 0, most = 0;
	const open = [];
	for (let i = 0; i < n; i++) {
		const d = i === 0 ? 0 : depth[i - 1] + 1 - next();
		if (i === 0) next();
		fn[i] = next();
		depth[i] = d;
		parent[i] = d > 0 ? open[d - 1] : -1;
		open[d] = i;
		if (d > deepest) deepest = d;
	}
	function amounts() {
		const to = new Float64Array(n), eight = new DataView(new ArrayBuffer(8));
		for (let i = 0; i < n; i++) {
			if (data.whole) to[i] = next();
			else {
				for (let k = 0; k < 8; k++) eight.setUint8(k, bytes.charCodeAt(byte++));
				to[i] = eight.getFloat64(0, true);
			}
		}
		return to;
	}
	const total = amounts(), self = amounts(), before = data.before ? amounts() : null;
	const filled = new Float64Array(n); // what of a node is to the left of the next one that it calls
	for (let i = 1; i < n; i++) {
		const p = parent[i];
		left[i] = left[p] + filled[p];
		filled[p] += total[i];
		if (before) most = Math.max(most, Math.abs(total[i] - before[i]));
	}
	for (let i = n - 1; i >= 0; i--) {
		if (end[i] === 0) end[i] = i + 1;
		if (i > 0 && end[parent[i]] === 0) end[parent[i]] = end[i];
	}

	let zoom = 0, at = 0, hover = -1, found = null, upside = false, wide = 0, high = 0, ratio = 1, charWide = 6.6, pending = false;
	const dark = matchMedia("(prefers-color-scheme: dark)");
	const hue = { c: [36, 88], k: [8, 78], j: [110, 45], i: [176, 45], p: [220, 12] };

	function colour(i) {
		if (before) {
			const v = most > 0 ? (total[i] - before[i]) / most : 0;
			const strong = Math.sqrt(Math.min(1, Math.abs(v)));
			const light = dark.matches ? 78 - 28 * strong : 93 - 33 * strong;
			return v === 0 ? `hsl(0 0% ${light}%)` : `hsl(${v > 0 ? 8 : 216} ${25 + 60 * strong}% ${light}%)`;
		}
		if (i === 0) return dark.matches ? "#8b9099" : "#d9d9d9";
		return palette[data.kinds[fn[i]]][data.shades.charCodeAt(fn[i]) - 48];
	}
	// paint works out the eight shades of each kind.
	const palette = {};
	function paint() {
		for (const kind in hue) {
			const [h, s] = hue[kind];
			palette[kind] = Array.from({ length: 8 }, (_, shade) => `hsl(${h + shade * 2 - 7} ${s}% ${(dark.matches ? 62 : 70) + (shade % 4) * 3}%)`);
		}
	}
	paint();

	const name = (i) => data.names[fn[i]];
	const percent = (part, whole) => (whole ? ((100 * part) / whole).toFixed(2) : "0.00") + "%";
	const number = (v) => (data.share ? percent(v, 1) : v.toLocaleString("en", { maximumFractionDigits: 3 }) + " " + data.unit);

	function tell(i) {
		if (i < 0) return;
		const module = data.modules[fn[i]];
		$("what").textContent = name(i) + (module && i ? " [" + module + "]" : "");
		let text = `${number(total[i])} (${percent(total[i], total[0])} of all`;
		if (zoom) text += `, ${percent(total[i], total[zoom])} of what is shown`;
		text += `), itself ${number(self[i])}`;
		if (before) {
			const change = total[i] - before[i];
			text = `before ${number(before[i])}, after ${number(total[i])}: ${change > 0 ? "+" : ""}${number(change)}`;
		}
		$("more").textContent = text;
	}

	// place gives where a node is: its left edge and width in pixels, or null when it is not to be seen.
	function place(i) {
		const scale = total[zoom] ? wide / total[zoom] : 0;
		if (i === zoom) return [0, wide];
		if (i > zoom && i < end[zoom]) return [(left[i] - left[zoom]) * scale, total[i] * scale];
		if (i < zoom && end[i] >= end[zoom]) return [0, wide]; // it calls what is shown
		return null;
	}
	const top = (d) => (upside ? d * rows : Math.max(high, (deepest + 1) * rows) - (d + 1) * rows);

	function draw() {
		pending = false;
		const scroll = frame.scrollTop;
		pen.setTransform(ratio, 0, 0, ratio, 0, 0);
		pen.clearRect(0, 0, wide, high);
		pen.font = font;
		pen.textBaseline = "middle";
		const style = getComputedStyle(document.documentElement), mark = style.getPropertyValue("--mark"), ring = style.getPropertyValue("--focus");
		const drawn = new Float64Array(deepest + 1).fill(-1); // of each row: up to where narrow boxes cover it
		const one = (i, x, w) => {
			const y = top(depth[i]) - scroll;
			if (y < -rows || y > high) return;
			if (w < 1) {
				if (x + w < drawn[depth[i]] + 0.5) return;
				drawn[depth[i]] = x;
			}
			pen.globalAlpha = i < zoom ? 0.55 : 1;
			pen.fillStyle = found && found[fn[i]] ? mark : colour(i);
			pen.fillRect(x, y, Math.max(0.5, w - (w > 3 ? 0.6 : 0)), rows - 1);
			pen.globalAlpha = 1;
			if (i === hover || i === at) {
				pen.lineWidth = 2;
				pen.strokeStyle = i === at ? ring : dark.matches ? "#fff" : "#000";
				pen.strokeRect(x + 1, y + 1, Math.max(1, w - 2.6), rows - 3);
			}
			const letters = Math.floor((w - 6) / charWide);
			if (letters < 3) return;
			let text = name(i);
			if (text.length > letters) text = text.slice(0, letters - 2) + "..";
			pen.fillStyle = found && found[fn[i]] ? (dark.matches ? "#16181d" : "#fff") : "#17181b";
			pen.fillText(text, x + 3, y + rows / 2);
		};
		for (let i = parent[zoom]; i >= 0; i = parent[i]) one(i, 0, wide);
		const scale = total[zoom] ? wide / total[zoom] : 0;
		for (let i = zoom; i < end[zoom]; ) {
			const w = i === zoom ? wide : total[i] * scale;
			if (w < 0.3) {
				i = end[i]; // and nothing that it calls is wider
				continue;
			}
			one(i, (left[i] - left[zoom]) * scale, w);
			i++;
		}
	}
	const redraw = () => {
		if (!pending) {
			pending = true;
			requestAnimationFrame(draw);
		}
	};

	function size() {
		ratio = window.devicePixelRatio || 1;
		wide = frame.clientWidth;
		high = frame.clientHeight;
		canvas.width = Math.round(wide * ratio);
		canvas.height = Math.round(high * ratio);
		canvas.style.width = wide + "px";
		canvas.style.height = high + "px";
		$("room").style.height = Math.max(high, (deepest + 1) * rows) + "px";
		pen.font = font;
		charWide = pen.measureText("mmmmmmmmmm").width / 10;
		redraw();
	}

	// show brings a node into view.
	function show(i) {
		const y = top(depth[i]);
		if (y < frame.scrollTop) frame.scrollTop = y - rows;
		else if (y + rows > frame.scrollTop + high) frame.scrollTop = y + 2 * rows - high;
	}
	function choose(i) {
		at = i;
		tell(i);
		show(i);
		redraw();
	}
	function into(i) {
		zoom = i;
		at = i;
		count();
		tell(i);
		show(i);
		redraw();
		history.replaceState(null, "", i ? "#" + i : location.pathname + location.search);
	}
	function hit(event) {
		const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top + frame.scrollTop;
		const whole = Math.max(high, (deepest + 1) * rows), d = Math.floor((upside ? y : whole - y) / rows);
		if (d < 0 || d > deepest) return -1;
		for (let i = zoom; i >= 0; i = parent[i]) if (depth[i] === d) return i;
		const scale = total[zoom] ? wide / total[zoom] : 0;
		for (let i = zoom + 1; i < end[zoom]; ) {
			const [l, w] = [(left[i] - left[zoom]) * scale, total[i] * scale];
			if (x < l || x >= l + w) i = end[i];
			else if (depth[i] === d) return i;
			else i++;
		}
		return -1;
	}

	// count tells how much of what is shown has a function that was searched for in its stacks.
	function count() {
		if (!found) {
			$("found").textContent = "";
			return;
		}
		let sum = 0;
		for (let i = zoom; i < end[zoom]; ) {
			if (found[fn[i]]) {
				sum += total[i];
				i = end[i];
			} else i++;
		}
		for (let i = parent[zoom]; i >= 0; i = parent[i]) if (found[fn[i]]) sum = total[zoom];
		$("found").textContent = "matched " + percent(sum, total[zoom]);
	}
	function search(text) {
		found = null;
		$("search").setCustomValidity("");
		if (text) {
			let test = null;
			try {
				const parts = /^\/(.+)\/(i?)$/.exec(text), low = text.toLowerCase();
				const pattern = parts ? new RegExp(parts[1], parts[2]) : null;
				test = pattern ? (s) => pattern.test(s) : (s) => s.toLowerCase().includes(low);
			} catch (wrong) {
				$("search").setCustomValidity(String(wrong.message));
				$("found").textContent = "no pattern";
				redraw();
				return;
			}
			found = data.names.map((s, i) => (i > 0 && test(s) ? 1 : 0));
		}
		count();
		redraw();
	}
	function reset() {
		$("search").value = "";
		search("");
		into(0);
	}

	canvas.addEventListener("mousemove", (e) => {
		const i = hit(e);
		canvas.style.cursor = i >= 0 ? "pointer" : "default";
		if (i !== hover) {
			hover = i;
			tell(i >= 0 ? i : at);
			redraw();
		}
	});
	canvas.addEventListener("mouseleave", () => {
		hover = -1;
		tell(at);
		redraw();
	});
	canvas.addEventListener("click", (e) => {
		const i = hit(e);
		if (i >= 0) into(i);
	});
	frame.addEventListener("scroll", redraw);
	new ResizeObserver(size).observe(frame);
	dark.addEventListener("change", () => {
		paint();
		redraw();
	});
	$("search").addEventListener("input", (e) => search(e.target.value));
	$("reset").addEventListener("click", reset);
	$("turn").addEventListener("click", () => turn());
	$("keys").addEventListener("click", () => $("help").showModal());
	function turn() {
		upside = !upside;
		frame.scrollTop = upside ? 0 : frame.scrollHeight;
		redraw();
	}

	const widest = (list) => list.reduce((best, i) => (best < 0 || total[i] > total[best] ? i : best), -1);
	function called(i) {
		const list = [];
		for (let c = i + 1; c < end[i]; c = end[c]) list.push(c);
		return list;
	}
	document.addEventListener("keydown", (e) => {
		if (e.ctrlKey || e.metaKey || e.altKey) {
			if ((e.ctrlKey || e.metaKey) && e.key === "f") {
				e.preventDefault();
				$("search").select();
			}
			return;
		}
		if ($("help").open) return;
		if (e.target === $("search")) {
			if (e.key === "Escape") {
				$("search").value = "";
				search("");
				frame.focus();
			} else if (e.key === "Enter") frame.focus();
			return;
		}
		const outward = upside ? "ArrowDown" : "ArrowUp", inward = upside ? "ArrowUp" : "ArrowDown";
		const beside = at > 0 ? called(parent[at]) : [0], where = beside.indexOf(at);
		const press = {
			[outward]: () => choose(Math.max(at, widest(called(at)))),
			[inward]: () => choose(Math.max(0, parent[at])),
			ArrowLeft: () => choose(beside[Math.max(0, where - 1)]),
			ArrowRight: () => choose(beside[Math.min(beside.length - 1, where + 1)]),
			Enter: () => into(at),
			Backspace: () => into(Math.max(0, parent[zoom])),
			Escape: reset,
			Home: reset,
			"/": () => $("search").select(),
			i: turn,
			"?": () => $("help").showModal(),
		}[e.key];
		if (press && !(e.target.tagName === "BUTTON" && e.key === "Enter")) {
			e.preventDefault();
			press();
		}
	});

	const start = Number(location.hash.slice(1));
	size();
	frame.scrollTop = frame.scrollHeight;
	if (Number.isInteger(start) && start > 0 && start < n) into(start);
	else tell(0);
	frame.focus();
})();
