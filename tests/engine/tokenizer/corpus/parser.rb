# frozen_string_literal: true

module Config
  Error = Class.new(StandardError)

  # Reads "key = value" lines; '#' starts a comment.
  class Parser
    attr_reader :values

    def initialize(strict: false)
      @strict = strict
      @values = Hash.new { |hash, key| hash[key] = [] }
    end

    def parse(text)
      text.each_line.with_index(1) do |line, number|
        next if line =~ /\A\s*(#|\z)/

        key, value = line.split('=', 2).map(&:strip)
        raise Error, "line #{number}: no '='" if value.nil? && @strict

        @values[key.to_sym] << value unless value.nil?
      end
      self
    end
  end
end
