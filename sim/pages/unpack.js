// What the page is about: a JSON text, and behind it arrays of numbers (packing.py).

const ARRAYS = { f8: Float64Array, i4: Int32Array, u1: Uint8Array };

async function unpack() {
  const packed = bytesOf(document.getElementById("data").textContent);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  const bytes = await new Response(stream).arrayBuffer();
  const length = new DataView(bytes).getUint32(0, true);
  const begin = Math.ceil((4 + length) / 8) * 8;
  const value = JSON.parse(new TextDecoder().decode(new Uint8Array(bytes, 4, length)));
  return withArrays(value, bytes, begin);
}

function bytesOf(base64) {
  if (Uint8Array.fromBase64) return Uint8Array.fromBase64(base64);
  const text = atob(base64);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return bytes;
}

// A list that begins with a text or a number has nothing else in it, and may be long.
function withArrays(value, bytes, begin) {
  if (value === null || typeof value !== "object") return value;
  if (Array.isArray(value) && typeof value[0] !== "object") return value;
  if (Array.isArray(value.array)) {
    const [kind, offset, count] = value.array;
    return new ARRAYS[kind](bytes, begin + offset, count);
  }
  for (const [key, item] of Object.entries(value)) {
    if (typeof item === "object") value[key] = withArrays(item, bytes, begin);
  }
  return value;
}
