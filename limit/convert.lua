-- The twin of convert.go.

-- a*b/c rounded up, at most MOST: bit by bit, because the product has up to 102 bits.
local function muldivup(a, b, c)
	if a <= 0 or b <= 0 or c <= 0 then return 0 end
	local whole, part = floor(a / c), fmod(a, c)
	if whole * c > a then whole = whole - 1 end
	local q, r, bit = 0, 0, 4503599627370496 -- 2^52
	while bit >= 1 do
		q, r = 2 * q, 2 * r
		if b >= bit then
			b = b - bit
			q, r = q + whole, r + part
		end
		while r >= c do q, r = q + 1, r - c end
		if q > MOST then return MOST end
		bit = bit / 2
	end
	if r > 0 then q = q + 1 end
	return min(q, MOST)
end

-- How many units c holds, rounded up.
local function heldunits(l, c, now)
	if l.kind == BUCKET or l.kind == PACE then
		return ceildiv(owed(l, c, max(now, c.at)), max(1, l.per))
	end
	if l.kind == WINDOW then expire(l, c, max(now, c.at)) end
	return c.used
end

-- Makes c, used under the limit from, one of l. makelog brings the log of a window.
local function convert(l, from, c, now, makelog)
	if l.kind == WINDOW and from.kind == WINDOW then
		return expire(from, c, max(now, c.at))
	end
	if l.kind == COOLDOWN and from.kind == COOLDOWN then return end
	if l.kind == from.kind and l.kind ~= SLOTS then
		local debt = owed(from, c, max(now, c.at))
		c.at, c.used = max(now, c.at), muldivup(debt, l.per, from.per)
		return
	end
	local n = 0
	if l.kind == SLOTS and from.kind ~= SLOTS then
		c.at, c.used, c.log = 0, 0, nil -- no holder would release them
		return
	end
	if l.kind ~= COOLDOWN and from.kind ~= COOLDOWN then n = heldunits(from, c, now) end
	c.at, c.used, c.log = 0, 0, nil
	if l.kind == WINDOW then c.log = makelog() end
	if n <= 0 then return end
	c.at = now
	if l.kind == PACE then
		c.used = l.per
	elseif l.kind == BUCKET then
		c.used = addunits(0, min(n, MOST), l.per)
	elseif l.kind == WINDOW then
		debit(l, c, now, n)
	elseif l.kind == SLOTS then
		c.used = n
	end
end
