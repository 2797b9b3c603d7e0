// What the page is about: a JSON text, and behind it arrays of numbers (packing.py).

const ARRAYS = { f8: Float64Array, i4: Int32Array, u1: Uint8Array };

async function unpack() {
  const text = atob(document.getElementById("data").textContent);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const begin = Math.ceil((4 + length) / 8) * 8;
  const value = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  return withArrays(value, bytes, begin);
}

function withArrays(value, bytes, begin) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value.array)) {
    const [kind, offset, count] = value.array;
    return new ARRAYS[kind](bytes, begin + offset, count);
  }
  for (const [key, item] of Object.entries(value)) {
    if (typeof item === "object") value[key] = withArrays(item, bytes, begin);
  }
  return value;
}
