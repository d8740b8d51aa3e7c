// The page of one profile. Text of the profile is inserted as text, never as markup.
"use strict";
(() => {
	const data = JSON.parse(document.getElementById("data").textContent);
	const $ = (id) => document.getElementById(id);
	const canvas = $("canvas"), frame = $("frame"), pen = canvas.getContext("2d");
	const rows = 18, font = '11px ui-monospace, Menlo, Consolas, "DejaVu Sans Mono", monospace';
	const most = data.most;

	// Columns: nodes in depth-first order, callees sorted by name. They are read in slices, so that
	// no animation frame waits.
	function* columns(bytes, n, sketched) {
		let byte = 0;
		function next() {
			let c = bytes[byte++], v = c & 127;
			for (let more = 128; c > 127; more *= 128) {
				c = bytes[byte++];
				v += (c & 127) * more;
			}
			return v;
		}
		const slice = 1 << 15;
		const c = { n, parent: new Int32Array(n), depth: new Int32Array(n), end: new Int32Array(n), left: new Float64Array(n), fn: new Uint32Array(n), deepest: 0, before: null, ids: null };
		const open = [];
		function walk(from, to) {
			const { parent, depth, fn } = c;
			for (let i = from; i < to; i++) {
				const out = next(), d = i === 0 ? 0 : depth[i - 1] + 1 - out;
				fn[i] = next();
				depth[i] = d;
				parent[i] = d > 0 ? open[d - 1] : -1;
				open[d] = i;
				if (d > c.deepest) c.deepest = d;
			}
		}
		const eight = new DataView(bytes.buffer, bytes.byteOffset);
		function amounts(values, from, to) {
			for (let i = from; i < to; i++) {
				if (data.whole) values[i] = next();
				else {
					values[i] = eight.getFloat64(byte, true);
					byte += 8;
				}
			}
		}
		function edges(filled, from, to) {
			const { parent, left, total } = c;
			for (let i = from; i < to; i++) {
				const p = parent[i];
				left[i] = left[p] + filled[p];
				filled[p] += total[i];
			}
		}
		function ends(from, to) {
			const { parent, end } = c;
			for (let i = to - 1; i >= from; i--) {
				if (end[i] === 0) end[i] = i + 1;
				if (i > 0 && end[parent[i]] === 0) end[parent[i]] = end[i];
			}
		}
		for (let i = 0; i < n; i += slice, yield) walk(i, Math.min(n, i + slice));
		for (const of of data.before ? ["total", "self", "before"] : ["total", "self"]) {
			c[of] = new Float64Array(n);
			for (let i = 0; i < n; i += slice, yield) amounts(c[of], i, Math.min(n, i + slice));
		}
		if (sketched) {
			c.ids = new Int32Array(n);
			for (let i = 0, id = 0; i < n; i++) c.ids[i] = id += next();
		}
		const filled = new Float64Array(n); // sum of the callees of each node read so far
		for (let i = 1; i < n; i += slice, yield) edges(filled, i, Math.min(n, i + slice));
		for (let i = n; i > 0; i -= slice, yield) ends(Math.max(0, i - slice), i);
		return c;
	}
	function unfolded(id) {
		const text = $(id).textContent;
		$(id).remove();
		if (Uint8Array.fromBase64) return Uint8Array.fromBase64(text);
		const letters = atob(text), to = new Uint8Array(letters.length);
		for (let i = 0; i < to.length; i++) to[i] = letters.charCodeAt(i);
		return to;
	}

	let n, parent, depth, end, left, fn, total, self, before, deepest;
	let ids = null; // of an overview: the index of each node in the whole
	function use(c) {
		({ n, parent, depth, end, left, fn, total, self, before, deepest, ids } = c);
	}
	const isRun = (i) => fn[i] === 0 && i > 0; // of narrow calls, in an overview
	const among = (i) => (ids ? ids[i] : i);
	{
		const work = columns(unfolded("first"), data.first, data.first < data.nodes);
		let step = work.next();
		while (!step.done) step = work.next();
		use(step.value);
	}

	let zoom = 0, at = 0, hover = -1, found = null, upside = false, wide = 0, high = 0, ratio = 1, charWide = 6.6, pending = false;
	const dark = matchMedia("(prefers-color-scheme: dark)");
	const hue = { c: [36, 88], k: [8, 78], j: [110, 45], i: [176, 45], p: [220, 12] };

	// Colours are the bytes of a pixel: 0xAABBGGRR.
	function pixel(h, s, l) {
		const part = (n) => {
			const k = (n + h / 30) % 12;
			return Math.round(255 * (l / 100 - (s / 100) * Math.min(l / 100, 1 - l / 100) * Math.max(-1, Math.min(k - 3, 9 - k, 1))));
		};
		return (0xff000000 | (part(4) << 16) | (part(8) << 8) | part(0)) >>> 0;
	}
	const pixelOf = (text) => {
		const v = parseInt(text.trim().slice(1), 16);
		return (0xff000000 | ((v & 255) << 16) | (v & 0xff00) | (v >> 16)) >>> 0;
	};
	const colours = new Uint32Array(data.names.length); // of each function
	let ring = "", mark = 0;
	function compared(i) {
		const v = most > 0 ? (total[i] - before[i]) / most : 0;
		const strong = Math.sqrt(Math.min(1, Math.abs(v)));
		const light = dark.matches ? 78 - 28 * strong : 93 - 33 * strong;
		return v === 0 ? pixel(0, 0, light) : pixel(v > 0 ? 8 : 216, 25 + 60 * strong, light);
	}
	// paint computes the colours: eight shades of each kind.
	function paint() {
		const style = getComputedStyle(document.documentElement), palette = {};
		ring = style.getPropertyValue("--focus");
		mark = pixelOf(style.getPropertyValue("--mark"));
		for (const kind in hue) {
			const [h, s] = hue[kind];
			palette[kind] = Array.from({ length: 8 }, (_, shade) => pixel(h + shade * 2 - 7, s, (dark.matches ? 62 : 70) + (shade % 4) * 3));
		}
		for (let f = 1; f < colours.length; f++) colours[f] = palette[data.kinds[f]][data.shades.charCodeAt(f) - 48];
		colours[0] = pixelOf(dark.matches ? "#8b9099" : "#d9d9d9");
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

	// place returns the left edge and width of a node in pixels, or null when it is not visible.
	function place(i) {
		const scale = total[zoom] ? wide / total[zoom] : 0;
		if (i === zoom) return [0, wide];
		if (i > zoom && i < end[zoom]) return [(left[i] - left[zoom]) * scale, total[i] * scale];
		if (i < zoom && end[i] >= end[zoom]) return [0, wide]; // it is a caller of the zoomed node
		return null;
	}
	const top = (d) => (upside ? d * rows : Math.max(high, (deepest + 1) * rows) - (d + 1) * rows);

	// draw draws a line of pixels for each visible depth, which the canvas stretches to the height
	// of a row, and the names of wide nodes.
	const layer = document.createElement("canvas"), lines = layer.getContext("2d");
	let image = null;
	function draw() {
		pending = false;
		const scroll = frame.scrollTop, width = canvas.width, whole = Math.max(high, (deepest + 1) * rows);
		pen.setTransform(1, 0, 0, 1, 0, 0);
		pen.clearRect(0, 0, width, canvas.height);
		const first = Math.max(0, Math.floor((upside ? scroll : whole - scroll - high) / rows));
		const last = Math.min(deepest, Math.floor((upside ? scroll + high : whole - scroll) / rows));
		if (last < first || width < 1) return;
		const n = last - first + 1;
		if (image && image.width === width && image.height === n) image.data.fill(0);
		else {
			image = new ImageData(width, n);
			layer.width = width;
			layer.height = n;
		}
		const labels = [], pixels = new Uint32Array(image.data.buffer);
		boxes(pixels, width, first, last, labels);
		lines.putImageData(image, 0, 0);
		pen.imageSmoothingEnabled = false;
		for (let d = first; d <= last; d++) {
			const y = top(d) - scroll;
			pen.globalAlpha = d < depth[zoom] ? 0.55 : 1;
			pen.drawImage(layer, 0, d - first, width, 1, 0, Math.round(y * ratio), width, Math.round((rows - 1) * ratio));
		}
		pen.globalAlpha = 1;
		pen.setTransform(ratio, 0, 0, ratio, 0, 0);
		pen.font = font;
		pen.textBaseline = "middle";
		let ink = "";
		for (let l = 0; l < labels.length; l += 3) {
			const i = labels[l], letters = Math.floor((labels[l + 2] - 6) / charWide);
			const now = found && found[fn[i]] ? (dark.matches ? "#16181d" : "#fff") : dark.matches && depth[i] < depth[zoom] ? "#e6e8ec" : "#17181b";
			if (now !== ink) pen.fillStyle = ink = now;
			let said = name(i);
			if (said.length > letters) said = said.slice(0, letters - 2) + "..";
			pen.fillText(said, labels[l + 1] + 3, top(depth[i]) - scroll + rows / 2);
		}
		outline(hover, dark.matches ? "#fff" : "#000", scroll);
		outline(at, ring, scroll);
	}
	// boxes colours the visible pixels and lists the nodes that are wide enough for a name: node,
	// left edge, width. It is one function with its own variables, since it visits tens of
	// thousands of nodes before the browser optimises it.
	function boxes(pixels, width, first, last, labels) {
		const starts = left, ends = end, totals = total, depths = depth, names = fn, hits = found, shades = colours, marked = mark, past = before;
		const unit = totals[zoom] ? width / totals[zoom] : 0, least = unit ? (0.3 * ratio) / unit : Infinity, from = starts[zoom];
		const gap = Math.max(1, Math.round(ratio / 2)), text = (6 + 3 * charWide) * ratio, stop = ends[zoom];
		for (let i = parent[zoom]; i >= 0; i = parent[i]) if (depths[i] >= first && depths[i] <= last) one(i, 0, width);
		for (let i = zoom; i < stop; ) {
			const amount = totals[i];
			if ((amount < least && i !== zoom) || depths[i] > last) {
				i = ends[i]; // its callees are not wider, and deeper
				continue;
			}
			if (depths[i] >= first && (names[i] !== 0 || i === 0)) one(i, i === zoom ? 0 : (starts[i] - from) * unit, i === zoom ? width : amount * unit);
			i++;
		}
		function one(i, x, w) {
			let a = Math.round(x), b = Math.round(x + w);
			if (b <= a) b = a + 1;
			if (b > width) {
				b = width;
				if (a >= b) a = b - 1;
			}
			if (b - a > 3 * gap) b -= gap;
			const line = (depths[i] - first) * width, c = hits && hits[names[i]] ? marked : past ? compared(i) : shades[names[i]];
			if (b - a < 8) for (let p = line + a; p < line + b; p++) pixels[p] = c;
			else pixels.fill(c, line + a, line + b);
			if (w >= text) labels.push(i, x / ratio, w / ratio);
		}
	}
	// outline marks a visible node.
	function outline(i, style, scroll) {
		const where = i >= 0 && !isRun(i) && place(i);
		if (!where || where[1] < 0.3) return;
		pen.lineWidth = 2;
		pen.strokeStyle = style;
		pen.strokeRect(where[0] + 1, top(depth[i]) - scroll + 1, Math.max(1, where[1] - 2.6), rows - 3);
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
		$("space").style.height = Math.max(high, (deepest + 1) * rows) + "px";
		pen.font = font;
		charWide = pen.measureText("mmmmmmmmmm").width / 10;
		redraw();
	}

	// show scrolls to a node.
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
		history.replaceState(null, "", i ? "#" + among(i) : location.pathname + location.search);
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
			else if (depth[i] === d) return isRun(i) ? -1 : i;
			else i++;
		}
		return -1;
	}

	// count prints the share of the shown calls with a matching function in their stack.
	function count() {
		if (!found || ids) {
			$("found").textContent = found ? "…" : "";
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
		for (let c = i + 1; c < end[i]; c = end[c]) if (!isRun(c)) list.push(c);
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
	const linked = Number.isInteger(start) && start > 0 && start < data.nodes ? start : 0;
	size();
	frame.scrollTop = frame.scrollHeight;
	if (linked && (!ids || ids.includes(linked))) into(ids ? ids.indexOf(linked) : linked);
	else tell(0);
	draw(); // now: the next frame may wait for the data after this script
	frame.focus();

	// The columns of all calls follow after the overview.
	async function rest() {
		const told = $("rest");
		told.textContent = `${data.nodes.toLocaleString("en")} calls, the widest of them first …`;
		told.hidden = false;
		if (document.readyState === "loading") await new Promise((done) => document.addEventListener("DOMContentLoaded", done));
		try {
			const unpacked = new DecompressionStream("gzip"), feed = unpacked.writable.getWriter();
			feed.write(unfolded("columns")).catch(() => {}); // the reader reports the error
			feed.close().catch(() => {});
			const work = columns(new Uint8Array(await new Response(unpacked.readable).arrayBuffer()), data.nodes, false);
			const { port1, port2 } = new MessageChannel();
			for (;;) {
				const until = performance.now() + 4;
				let step = work.next();
				while (!step.done && performance.now() < until) step = work.next();
				if (step.done) {
					arrived(step.value);
					break;
				}
				await new Promise((done) => {
					port1.onmessage = done;
					port2.postMessage(0);
				});
			}
			port1.close();
			told.hidden = true;
		} catch (wrong) {
			told.textContent = `only the widest of ${data.nodes.toLocaleString("en")} calls: ${wrong.message}`;
		}
	}
	function arrived(all) {
		const to = [among(zoom), among(at)], moved = zoom !== 0 || at !== 0, up = frame.scrollHeight - frame.scrollTop;
		use(all);
		[zoom, at] = moved || !linked ? to : [linked, linked];
		hover = -1;
		size();
		if (!upside) frame.scrollTop = frame.scrollHeight - up;
		count();
		tell(at);
	}
	if (ids) rest();
})();
