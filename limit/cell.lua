-- The twin of cell.go: the same arithmetic, number for number. What it does and why is
-- said there; here is only what differs.
--
-- A limit is a table with kind, max, per and burst; a cell one with at and used, and a
-- window's cell also has a log. All numbers are integers below 2^53, which a double
-- holds exactly; products that may be larger are only compared with ones that are not.

local BUCKET, PACE, WINDOW, SLOTS, COOLDOWN = 1, 2, 3, 4, 5
local MOST = 2251799813685248 -- MaxCredits
local PASS, NEVER = -1, -2    -- verdicts; any other is the wait

local min, max, floor, fmod = math.min, math.max, math.floor, math.fmod

-- A quotient that is rounded by the division could come out one too small, so the
-- remainder, which is exact, is taken off first.
local function ceildiv(a, b)
	local r = fmod(a, b)
	if r == 0 then return a / b end
	return (a - r) / b + 1
end

local function owed(l, c, now)
	local rate = l.kind == COOLDOWN and 1 or l.max
	if c.used <= 0 then return 0 end
	if rate <= 0 or now <= c.at then return c.used end
	return max(0, c.used - (now - c.at) * rate)
end

local function span(l)
	if l.kind == BUCKET and l.max > 0 then return ceildiv(l.burst * l.per, l.max) end
	if l.kind == COOLDOWN and l.per == 0 then return MOST end
	return l.per
end

local function steady(l, c, now)
	if c.at > now and c.at - now <= span(l) then return c.at end
	return now
end

-- Brings a stamp to now that lies further ahead than the limit could have put it, and
-- says whether it did.
local function heal(l, c, now)
	if c.at <= now or steady(l, c, now) > now then return false end
	c.at = now
	return true
end

local function addunits(debt, n, per)
	local most = floor(MOST / max(1, per))
	if n > most then return MOST end
	if n < -most then return 0 end
	return min(max(0, debt + n * per), MOST)
end

local function capacity(l)
	if l.kind == BUCKET then return l.max > 0 and l.burst or 0 end
	if l.kind == PACE then return 1 end
	if l.kind == WINDOW or l.kind == SLOTS then return l.max end
	return 0
end

-- The twin of Fit: the verdict, and what a cell that took the units would be at and
-- have used. It changes nothing.
local function fitcell(l, c, now, n)
	local kind = l.kind
	if kind == COOLDOWN then
		local left = owed(l, c, steady(l, c, now))
		return left > 0 and left or PASS, c.at, c.used
	end
	local most = capacity(l)
	if n < 0 or n > most or most <= 0 then return NEVER end
	if kind == SLOTS then
		if n > 0 and c.used > most - n then return 0 end
		return PASS, c.at, c.used + n
	end
	now = steady(l, c, now)
	local debt = owed(l, c, now) + n * l.per
	if n > 0 then
		local tolerance = 0
		if kind == BUCKET then
			tolerance = floor(l.per / 1000) >= l.max and l.max or l.max - 1
		end
		local over = debt - l.burst * l.per - tolerance
		if over > 0 then return ceildiv(over, l.max) end
	end
	return PASS, now, debt
end

local function givecell(l, c, now, n)
	if l.kind == SLOTS then
		c.used = addunits(c.used, -n, 1)
	elseif l.kind ~= COOLDOWN then
		now = steady(l, c, now)
		c.used = addunits(owed(l, c, now), -n, l.per)
		c.at = now
	end
end

local function cool(l, c, now, d)
	if l.kind ~= COOLDOWN or d <= 0 then return end
	if l.per > 0 then d = min(d, l.per) end
	d = min(d, MOST)
	heal(l, c, now)
	now = steady(l, c, now)
	if d > owed(l, c, now) then c.at, c.used = now, d end
end
