-- The log of a window, inside the value of its cell, so that a take reads and writes a
-- few bytes of it however long it is. FORMAT.md draws it.

local HEAD, ENTRY = 50, 14
local NEAR = 600 -- so much of a value is read at once, and written at once

local concat = table.concat

local Log = {}
Log.__index = Log

local function newlog(key) return setmetatable({key = key, raw = '', head = 0, n = 0}, Log) end

-- The log of a value of which raw is the beginning.
local function readlog(key, raw)
	local head, n = unpack('<HH', raw, WATCHED + 1)
	return setmetatable({key = key, raw = raw, head = head, n = n}, Log)
end

function Log:get(i)
	if self.list then
		local d = self.list[i]
		return d[1], d[2]
	end
	if i == self.n and self.at then return self.at, self.units end
	local from = HEAD + (self.head + i - 1) * ENTRY
	if from + ENTRY <= #self.raw then
		local at, n = unpack('<i7i7', self.raw, from + 1)
		return at, n
	end
	local start = self.start
	if not start or from < start or from + ENTRY > start + #self.part then
		start, self.part = from, call('GETRANGE', self.key, from, from + 63 * ENTRY - 1)
		self.start = start
	end
	local at, n = unpack('<i7i7', self.part, from - start + 1)
	return at, n
end

-- Makes the log a table: what changes more than its ends is written anew.
function Log:whole()
	if self.list then return self.list end
	local list = {}
	for i = 1, self.n do list[i] = {self:get(i)} end
	self.list = list
	return list
end

function Log:set(i, at, n)
	self.touched = true
	if i == self.n and not self.list then
		self.at, self.units = at, n
	else
		self:whole()[i] = {at, n}
	end
end

function Log:push(at, n)
	if self.at and not self.list then self:whole() end
	self.touched, self.n = true, self.n + 1
	if self.list then
		self.list[self.n] = {at, n}
	else
		self.at, self.units = at, n
	end
end

function Log:shift()
	self.touched, self.n = true, self.n - 1
	if self.list then
		table.remove(self.list, 1)
	else
		self.head = self.head + 1
		if self.n == 0 then self.at = nil end
	end
end

function Log:remove(i)
	if i == self.n and not self.list then self:whole() end
	table.remove(self:whole(), i)
	self.touched, self.n = true, self.n - 1
end

-- Writes the cell that begins with plain, to end in a millisecond, by call.
function Log:write(plain, ending, call)
	local key, n = self.key, self.n
	local stop = HEAD + (self.head + n) * ENTRY
	if not self.list and (stop > NEAR and self.head < 256 + n) then
		call('SETRANGE', key, 0, plain .. pack('<HH', self.head, n))
		if self.at then call('SETRANGE', key, stop - ENTRY, pack('<i7i7', self.at, self.units)) end
		return call('PEXPIREAT', key, ending)
	end
	local parts = {plain, pack('<HH', 0, n)}
	local known = self.at and stop - ENTRY or stop
	if not self.list and known <= #self.raw then
		parts[3] = sub(self.raw, HEAD + self.head * ENTRY + 1, known)
		if self.at then parts[4] = pack('<i7i7', self.at, self.units) end
	else
		for i = 1, n do parts[i + 2] = pack('<i7i7', self:get(i)) end
	end
	call('SET', key, concat(parts), 'PXAT', ending)
end
