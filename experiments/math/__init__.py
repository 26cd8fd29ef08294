"""Qwen2.5-Coder-1.5B-Instruct on GSM8K and MATH: does CODA save tokens on easy problems without losing hard ones?"""
